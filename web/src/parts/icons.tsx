/** Line icons, drawn here so that nothing is fetched for them. They are decoration: the words are beside them. */
const PATHS = {
  back: "M15 5 8 12l7 7",
  send: "M12 19V5m-6 6 6-6 6 6",
  stop: "M7 7h10v10H7z",
  devices: "M3 5h13v9H3zM1.5 18H12M16 10h6v10h-6zM19 17.2v.01",
  plus: "M12 5v14M5 12h14",
  check: "m5 12.5 4.5 4.5L19 7.5",
  cross: "M6 6l12 12M18 6 6 18",
  chevron: "m9 6 6 6-6 6",
  down: "M12 5v14m-6-6 6 6 6-6",
  alert: "M12 4 2.8 20h18.4zM12 10v4.5M12 17.4v.01",
  question: "M9 9.2a3 3 0 1 1 4.4 2.7c-.9.5-1.4 1.1-1.4 2.1M12 17.4v.01M12 2.8a9.2 9.2 0 1 1 0 18.4 9.2 9.2 0 0 1 0-18.4z",
  folder: "M3 6h6l2 2.5h10V19H3z",
  shield: "M12 3 4.5 6v6c0 4.5 3 7.6 7.5 9 4.5-1.4 7.5-4.5 7.5-9V6z",
  clip: "M20 11.5l-8.2 8.2a5.3 5.3 0 0 1-7.5-7.5l8.6-8.6a3.5 3.5 0 0 1 5 5l-8.4 8.4a1.8 1.8 0 0 1-2.5-2.5l7.6-7.6",
  filter: "M4 6h16M7 12h10M10 18h4",
  keyboard: "M2.5 6h19v12h-19zM6 10h.01M9.5 10h.01M13 10h.01M16.5 10h.01M7.5 14h9",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  pin: "M9 4h6l-1 6 3.5 3.5h-11L10 10zM12 13.5V21",
  archive: "M3.5 5h17v4h-17zM5 9v10h14V9M10 13h4",
  pen: "M4 20l1-4L16.5 4.5l3 3L8 19zM14.5 6.5l3 3",
  search: "M10.5 4a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM15.3 15.3 20.5 20.5",
  afresh: "M20 11a8 8 0 1 0-2.3 6.2M20 4.5V11h-6.5",
  dots: "M5 12h.01M12 12h.01M19 12h.01",
  clock: "M12 7v5l3 2M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, className }: { name: IconName; className?: string }) {
  return (
    <svg className={className ? `icon ${className}` : "icon"} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Mark() {
  return (
    <svg className="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="9" />
      <path d="M9.8 22.2 22.2 9.8" />
    </svg>
  );
}
