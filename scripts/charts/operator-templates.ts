/**
 * The templates of the chart helm/sallyport that say the same as something else: CRDs, and the rules of RBAC, which
 * operator/deploy has for kubectl.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** Where each named list of rules comes from: a file of operator/deploy, and the object in it. */
const RULES = {
  cluster: ["cluster/roles.yaml", "sallyport-operator"],
  namespaced: ["namespaced/role.yaml", "sallyport-operator"],
  leases: ["base/leases.yaml", "sallyport-operator-leases"],
  view: ["cluster/users.yaml", "sallyport-view"],
  edit: ["cluster/users.yaml", "sallyport-edit"],
  admin: ["cluster/users.yaml", "sallyport-admin"],
  tenant: ["cluster/users.yaml", "sallyport-tenant"],
} as const satisfies Record<string, readonly [file: string, name: string]>;

const HEADER = "Generated from operator/deploy by `npm run generate`; do not edit.";

/**
 * The templates by file name.
 *
 * @param crds manifests of the CRDs by file name, as in the folder crds
 * @param deploy the folder operator/deploy
 */
export function operatorTemplates(crds: ReadonlyMap<string, string>, deploy: string): Map<string, string> {
  const templates = new Map<string, string>();
  for (const [name, text] of crds) if (name !== "kustomization.yaml") templates.set(name, crdTemplate(text));
  const rules = Object.entries(RULES).map(([name, [file, object]]) => {
    const text = rulesOf(readFileSync(join(deploy, file), "utf8"), object);
    return `{{- define "sallyport.rules.${name}" -}}\n${text}\n{{- end -}}\n`;
  });
  templates.set("_rules.tpl", `{{/* ${HEADER} */}}\n${rules.join("\n")}`);
  return templates;
}

/** A CRD behind `crds.enabled`, which stays behind `crds.keep`, with the labels of the release. */
export function crdTemplate(manifest: string): string {
  const text = escaped(manifest)
    .replace(
      /^ {2}annotations:\n/m,
      `$&    {{- if .Values.crds.keep }}\n    helm.sh/resource-policy: keep\n    {{- end }}\n`,
    )
    .replace(/^ {2}labels:\n/m, `$&    {{- include "sallyport.releaseLabels" . | nindent 4 }}\n`);
  if (text.split("{{-").length !== 4) throw new Error(`a CRD without annotations or labels of its own:\n${manifest}`);
  return `{{- if .Values.crds.enabled }}\n${text.trimEnd()}\n{{- end }}\n`;
}

/** The rules of one Role of a file, with their comments, as they stand below `rules:` and without its indentation. */
export function rulesOf(file: string, name: string): string {
  const object = file
    .split(/^---\n/m)
    .find((text) => text.includes(`\n  name: ${name}\n`) && text.includes("\nrules:\n"));
  const [, rules] = /^rules:\n((?: .*\n?)+)/m.exec(object ?? "") ?? [];
  if (rules === undefined) throw new Error(`no rules of ${name} in the file`);
  return escaped(rules)
    .replace(/^ {2}/gm, "")
    .replace(
      /^( +)resourceNames:\n +- sallyport-operator$/m,
      `$1resourceNames:\n$1  - {{ include "sallyport.serviceAccountName" . }}`,
    )
    .trimEnd();
}

/** What a template takes for an action is text here. */
const escaped = (text: string): string => text.replaceAll("{{", '{{ "{{" }}');
