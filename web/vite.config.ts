import { defineConfig } from "vite";

// What is built is embedded in the hub and served under a policy that allows no inline script, style or worker.
export default defineConfig({
  resolve: { conditions: ["baton-source", "module", "browser", "development|production"] },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
});
