import { createRoot } from "react-dom/client";
import { App } from "./app.tsx";
import { takeInvitation } from "./route.ts";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/timeline.css";
import "./styles/cards.css";

// Before anything else is drawn or requested.
const invitation = takeInvitation();
const root = document.getElementById("root");
if (root) createRoot(root).render(<App invitation={invitation} />);
