import { createRoot } from "react-dom/client";
import { App } from "./app.tsx";
import { takeArrival } from "./route.ts";
import { startWorker } from "./service_worker_start.ts";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/list.css";
import "./styles/sheet.css";
import "./styles/timeline.css";
import "./styles/cards.css";

// Before anything else is drawn or requested.
const arrival = takeArrival();
startWorker();
const root = document.getElementById("root");
if (root) createRoot(root).render(<App arrival={arrival} />);
