import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

/** Tells the worker which files make this version of the console, so that it keeps them together. */
function shell(): Plugin {
  const fixed = fileURLToPath(new URL("public", import.meta.url));
  return {
    name: "shell",
    apply: "build",
    enforce: "post",
    generateBundle(_, bundle) {
      const digest = createHash("sha256");
      const files = ["/"];
      for (const [name, made] of Object.entries(bundle).sort(([left], [right]) => (left < right ? -1 : 1))) {
        if (name === "service_worker.js") continue;
        digest.update(name).update(made.type === "chunk" ? made.code : made.source);
        if (name !== "index.html") files.push(`/${name}`);
      }
      for (const entry of readdirSync(fixed, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())) {
        const path = join(entry.parentPath, entry.name);
        const name = `/${relative(fixed, path).replaceAll("\\", "/")}`;
        digest.update(name).update(readFileSync(path));
        files.push(name);
      }
      const worker = bundle["service_worker.js"];
      if (worker?.type !== "chunk") throw new Error("the worker wasn't built");
      if (worker.imports.length > 0) throw new Error("the worker has to be one file");
      const made = JSON.stringify({ version: digest.digest("hex").slice(0, 16), files });
      worker.code = worker.code.replaceAll("__SHELL__", () => made);
    },
  };
}

/** Puts a compressed copy beside each text, for a hub that is reached over a thin line. */
function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    writeBundle(options, bundle) {
      for (const name of Object.keys(bundle).filter((name) => /\.(css|html|js|svg)$/.test(name))) {
        const path = join(options.dir ?? "dist", name);
        writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
      }
    },
  };
}

// What is built is embedded in the hub and served under a policy that allows no inline script or style.
export default defineConfig({
  plugins: [shell(), compressed()],
  resolve: { conditions: ["baton-source", "module", "browser", "development|production"] },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    rollupOptions: {
      input: { index: fileURLToPath(new URL("index.html", import.meta.url)), service_worker: fileURLToPath(new URL("src/service_worker.ts", import.meta.url)) },
      output: { entryFileNames: (made) => (made.name === "service_worker" ? "service_worker.js" : "assets/[name]-[hash].js") },
    },
  },
});
