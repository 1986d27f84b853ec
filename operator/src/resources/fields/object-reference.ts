import { struct, text } from "./bounded.ts";
import type { CelRule } from "./cel.ts";

const DNS_NAME = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/;

/** Name of a Kubernetes object of the same namespace. */
export const objectName = (description: string, rules?: readonly CelRule[]) =>
  text(description, { min: 1, max: 253, pattern: DNS_NAME, rules });

/** Reference by name to an object of the same namespace. */
export const nameRef = (description: string, what: string, rules?: readonly CelRule[]) =>
  struct(description, { name: objectName(`Name of ${what} in the same namespace.`) }, rules);

const key = (what: string) => text(`Key in ${what}.`, { min: 1, max: 253, pattern: /^[-._a-zA-Z0-9]+$/ });

/** One value of a Secret of the same namespace. */
export const secretKeyRef = (description: string) =>
  struct(description, { name: objectName("Name of the Secret in the same namespace."), key: key("the Secret") });

/** One value of a ConfigMap of the same namespace. */
export const configMapKeyRef = (description: string) =>
  struct(description, {
    name: objectName("Name of the ConfigMap in the same namespace."),
    key: key("the ConfigMap"),
  });

/** Id of an entity of the network. */
export const entityId = (description: string, rules?: readonly CelRule[]) =>
  text(description, { min: 1, max: 64, pattern: /^[A-Za-z0-9._-]+$/, rules });
