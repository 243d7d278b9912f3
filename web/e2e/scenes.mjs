// What the scripted model says in the tests and pictures of the console: one rule for each thing that a person may see happen.
const say = (words, results, reply) => ({ when: { last_user_contains: words, ...(results === undefined ? {} : { results }) }, reply });
const call = (name, args) => ({ name, arguments: args });

export const HEREDOC = ["cat > notes.txt <<'END'", ...Array.from({ length: 500 }, (_, n) => `line ${n + 1} of the notes`), "END"].join("\n");
export const LONG_LINE = `echo ${"0123456789".repeat(1000)}`;
export const HIDDEN = "echo pay\u202e0001 \u200bfriend\rrm -rf /";
/** 10,000 lines, a line of a megabyte, a file that isn't text, and names that deceive: right to left, and of no width. */
export const GREAT = ["seq 10000 > many.txt", "head -c 1000000 /dev/zero | tr '\\0' x > line.txt", "head -c 4000 /dev/zero > data.bin", "echo one > 'pay\u202etxt.exe'", "echo two > 'pay\u200bment.txt'"].join("; ");
export const STREAM = Array.from({ length: 40 }, (_, n) => `Paragraph ${n + 1} of a long answer that goes on while you read it.`).join("\n\n");
export const ANSWER = `The button is **round** now, and its contrast is good enough in the dark.

- \`index.html\` has a radius of 8px
- the contrast in dark mode is **7.2 : 1**

\`\`\`css
#search { border-radius: 8px; }
\`\`\`

See [the guidelines](https://www.w3.org/TR/WCAG22/) for the limit.`;

const STEPS = [
  { id: "look", title: "Find the button and where its style comes from" },
  { id: "round", title: "Give it a corner radius of 8px", depends_on: ["look"] },
  { id: "check", title: "Check the contrast in dark mode", depends_on: ["round"] },
];

export const SCRIPT = [
  say("Round the search button", 0, {
    thinking: "The button is in index.html. First a plan, then the style, then the contrast.",
    text: "I'll look at the page first.",
    calls: [call("set_plan", { steps: STEPS }), call("start_step", { step_id: "look" }), call("find_text", { pattern: "search", path: ".", literal: true }), call("read_file", { path: "index.html" })],
  }),
  say("Round the search button", 4, {
    calls: [
      call("finish_step", { step_id: "look", conclusion: "It is #search in index.html." }),
      call("start_step", { step_id: "round" }),
      call("edit_file", { path: "index.html", old_text: "<button id=\"search\">", new_text: "<button id=\"search\" style=\"border-radius: 8px\">" }),
      call("record_fact", { key: "button.corner_radius", value: "8px", scope: "session", source: "the user" }),
      call("record_fact", { key: "page", value: "index.html", scope: "task", source: "find_text" }),
    ],
  }),
  say("Round the search button", 9, {
    thinking: "Now the contrast.",
    text: "The radius is set. Now I'd like to run the contrast check.",
    calls: [call("finish_step", { step_id: "round", conclusion: "The radius is 8px.", product: "index.html" }), call("start_step", { step_id: "check" }), call("run_command", { argv: ["sh", "-c", "grep -c button index.html && echo contrast 7.2 >> report.txt"] })],
  }),
  say("Round the search button", 12, { calls: [call("finish_step", { step_id: "check", conclusion: "7.2 : 1" }), call("finish_task", { summary: ANSWER })] }),
  say("Delete the old page", 0, { text: "That page isn't linked any more.", calls: [call("delete_file", { path: "old.html" })] }),
  say("Delete the old page", 1, { text: "Done with the old page." }),
  say("Which colour", 0, { calls: [call("ask_user", { question: "Which of these should the button have in dark mode?", options: ["Forest green", "Slate blue", "As it is"] })] }),
  say("Which colour", 1, { text: "Good, so it shall be." }),
  say("Write the notes", 0, { calls: [call("run_command", { argv: ["sh", "-c", HEREDOC] })] }),
  say("Write the notes", 1, { text: "The notes are settled." }),
  say("A long line", 0, { calls: [call("run_command", { argv: ["sh", "-c", LONG_LINE] })] }),
  say("A long line", 1, { text: "The line is settled." }),
  say("Something hidden", 0, { calls: [call("run_command", { argv: ["sh", "-c", HIDDEN] })] }),
  say("Something hidden", 1, { text: "Settled." }),
  say("Tell me a lot", undefined, { text: STREAM, delay_ms: 10 }),
  say("Take your time", 0, { thinking: "Slowly, then.", calls: [call("run_command", { argv: ["sh", "-c", "sleep 60"] })] }),
  say("Add a line", 0, { calls: [call("write_file", { path: "added.txt", content: "one\n" }), call("run_command", { argv: ["sh", "-c", "echo two >> added.txt"] })] }),
  say("Add a line", 2, { text: "It is added." }),
  say("Change a great deal", 0, { calls: [call("run_command", { argv: ["sh", "-c", GREAT] })] }),
  say("Change a great deal", 1, { text: "That was a great deal." }),
  say("About the changes", 0, { text: "I have read your comments." }),
  say("Where is it said", undefined, { text: "In [the page](index.html:4), in [README.md](./README.md#L1), and [nowhere](gone.html). Not [outside](../../etc/passwd), not [here](javascript:alert(1))." }),
  say("Count the lines", 0, { calls: [call("run_command", { argv: ["touch", "lines.txt"] })] }),
  say("Two things", 0, { calls: [call("run_command", { argv: ["sh", "-c", "echo first >> report.txt"] }), call("run_command", { argv: ["sh", "-c", "echo second >> report.txt"] })] }),
  say("Two things", 2, { text: "Both are settled." }),
  say("The key is wrong", undefined, { fault: { status: 401 } }),
  say("改成圆角", 0, {
    thinking: "先看首页。",
    text: "我先看一下页面。",
    calls: [
      call("set_plan", { steps: [{ id: "1", title: "找到按钮和它的样式" }, { id: "2", title: "把圆角改成 8px" }, { id: "3", title: "检查深色模式下的对比度" }] }),
      call("start_step", { step_id: "1" }),
      call("read_file", { path: "index.html" }),
    ],
  }),
  say("改成圆角", 3, { text: "现在运行对比度检查。", calls: [call("finish_step", { step_id: "1", conclusion: "按钮在 index.html。" }), call("start_step", { step_id: "2" }), call("run_command", { argv: ["sh", "-c", "echo 对比度 7.2 >> report.txt"] })] }),
  { when: {}, reply: { text: "All right." } },
];

export const FILES = {
  "index.html": "<!doctype html>\n<title>Orchard</title>\n<nav>\n  <button id=\"search\">Search</button>\n</nav>\n<p>Apples and pears.</p>\n",
  "old.html": "<!doctype html>\n<title>Old</title>\n",
  "README.md": "# Orchard\n\nApples.\n",
};
