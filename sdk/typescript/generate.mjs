// Writes src/types.gen.ts from schema/*.json (which `cargo xtask types` writes from the Rust types).
// With `--check` it writes nothing and fails when the file is out of step.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { compile } from "json-schema-to-typescript";

const schemas = new URL("./schema/", import.meta.url);
const target = new URL("./src/types.gen.ts", import.meta.url);

const definitions = {};
for (const file of readdirSync(schemas).filter((name) => name.endsWith(".json")).sort()) {
  const { $defs = {}, $schema, ...root } = JSON.parse(readFileSync(new URL(file, schemas), "utf8"));
  Object.assign(definitions, $defs);
  // A file may also be one type of its own, named by its title.
  if (root.type || root.oneOf || root.anyOf) definitions[root.title] = root;
}

/** Whether an object carries a property with a fixed value, by which the branches of a union are told apart. */
const isTagged = (branch) => Object.values(branch?.properties ?? {}).some((property) => "const" in property);

/** Shapes what schemars writes so that the TypeScript reads like what a person would write; the meaning stays. */
function shape(node) {
  if (Array.isArray(node)) return node.map(shape);
  if (node === null || typeof node !== "object") return node;
  const { title: _title, format: _format, default: _default, minimum: _min, maximum: _max, ...rest } = node;
  const shaped = Object.fromEntries(
    Object.entries(rest).map(([key, value]) => [
      key,
      key === "properties" || key === "$defs"
        ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, shape(inner)]))
        : shape(value),
    ]),
  );
  delete shaped.unevaluatedProperties;
  // The library knows tuples as they were written in earlier drafts.
  if (shaped.prefixItems) {
    shaped.items = shaped.prefixItems;
    delete shaped.prefixItems;
  }
  // A closed list of words that carries a doc for each arrives as `oneOf` of constants.
  const branches = shaped.oneOf;
  if (branches?.every((branch) => "const" in branch || branch.enum)) {
    delete shaped.oneOf;
    delete shaped.type;
    shaped.enum = branches.flatMap((branch) => branch.enum ?? [branch.const]);
  }
  // A tagged newtype is `$ref` beside its tag; the library would let the tag's properties replace the referred ones.
  if (shaped.$ref) {
    const { $ref, description: _description, ...beside } = shaped;
    return isTagged(beside) ? { allOf: [{ $ref }, { ...beside, additionalProperties: false }] } : { $ref };
  }
  if ((shaped.type === "object" || shaped.properties) && shaped.additionalProperties === undefined) shaped.additionalProperties = false;
  // A flattened union stands beside the properties it is flattened into.
  if (shaped.oneOf && shaped.properties) {
    const { oneOf, description, ...beside } = shaped;
    return { description, allOf: [beside, { oneOf }] };
  }
  return shaped;
}

const root = { title: "Wire", type: "object", additionalProperties: false, $defs: {} };
for (const [name, definition] of Object.entries(definitions)) root.$defs[name] = shape(definition);

const generated = await compile(root, "Wire", {
  bannerComment:
    "// Generated from the Rust types of the wire by `cargo xtask types`. Don't edit: change crates/baton-proto.\n/* eslint-disable */",
  unreachableDefinitions: true,
  additionalProperties: false,
  format: true,
  style: { printWidth: 120 },
});
/** The fixed values of one property over a union's branches. */
const words = (union, tag) => JSON.stringify(definitions[union].oneOf.map((branch) => branch.properties[tag].const));
const text = `${generated
  .replace(/(?: \*\n)? \* This interface was referenced by `Wire`'s JSON-Schema\n \* via the `definition` "\w+"\.\n/g, "")
  .replace(/\/\*\*\n \*\/\n/g, "")
  .replace(/export interface Wire \{\}\n/, "")}
/** The event types that this version knows; others are shown neutrally. */
export const SESSION_EVENT_TYPES: readonly string[] = ${words("SessionEvent", "type")};
/** The kinds of entity that this version knows. */
export const ENTITY_KINDS: readonly string[] = ${words("EntityView", "kind")};
`;

if (process.argv.includes("--check")) {
  if (readFileSync(target, "utf8") !== text) {
    console.error("src/types.gen.ts is out of step with the schema: run `cargo xtask types`.");
    process.exit(1);
  }
} else {
  writeFileSync(target, text);
}
