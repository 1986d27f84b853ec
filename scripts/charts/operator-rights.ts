/** What the operator asks Kubernetes for, from its Role, for the program: by this it checks whether it may. */
import { parse } from "yaml";

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/**
 * The text of operator/src/program/generated/rights.ts.
 *
 * @param namespaced the Role of the namespaces that it looks after
 * @param leases the Role of its own namespace; rules for objects of certain names are left out, since they may be called otherwise
 */
export function operatorRights(namespaced: string, leases: string): string {
  return `// Generated from operator/deploy by \`npm run generate\`; do not edit.

export interface Right {
  readonly group: string;
  /** With its subresource: \`networks/status\`. */
  readonly resource: string;
  readonly verbs: readonly string[];
}

/** In every namespace that is looked after. */
export const RIGHTS: readonly Right[] = ${listOf(namespaced)};

/** In the operator's own namespace. */
export const OWN_RIGHTS: readonly Right[] = ${listOf(leases)};
`;
}

function listOf(role: string): string {
  const rules = (parse(role) as { rules: readonly Rule[] }).rules.filter(({ resourceNames }) => !resourceNames);
  const rights = rules.flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) => resources.map((resource) => ({ group, resource, verbs }))),
  );
  return JSON.stringify(rights, undefined, 2);
}
