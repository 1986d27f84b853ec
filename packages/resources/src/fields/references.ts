import type { z } from "zod";
import { choice, list, struct, text } from "./bounded.ts";
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

/** One way of a policy to name entities: by attributes, by resources of the namespace, by ids. */
function roles(what: string) {
  return list(
    `Selects ${what} by attribute: "#web" is an attribute, "#all" selects every one and stands alone.`,
    text("One selector, such as #web.", { min: 2, max: 257 }),
    {
      type: "set",
      max: 128,
      rules: [
        {
          rule: "self.all(r, r.startsWith('#'))",
          message: "a selector begins with #: name single entities in the fields that end in Refs or Ids",
        },
        {
          rule: "!self.exists(r, r == '#all') || self.size() == 1",
          message: "#all selects every entity: it stands alone",
        },
      ],
    },
  );
}

/** Names entities by the resources that stand for them. */
export const refs = (what: string, kind: string) =>
  list(`Selects ${what} by their resources in the same namespace.`, nameRef("One resource.", `the ${kind}`), {
    type: "map",
    keys: ["name"],
    max: 1024,
  });

const ids = (what: string) =>
  list(`Selects ${what} by their ids in the network.`, entityId("One id."), { type: "set", max: 1024 });

/** The three fields of a selector whose name begins with `field`, such as `identityRoles`. */
export const selector = <const Field extends string>(field: Field, what: string, kind: string) =>
  ({
    [`${field}Roles`]: roles(what).optional(),
    [`${field}Refs`]: refs(what, kind).optional(),
    [`${field}Ids`]: ids(what).optional(),
  }) as { [K in `${Field}Roles`]: z.ZodOptional<ReturnType<typeof roles>> } & {
    [K in `${Field}Refs`]: z.ZodOptional<ReturnType<typeof refs>>;
  } & { [K in `${Field}Ids`]: z.ZodOptional<ReturnType<typeof ids>> };

/** On the policy's spec: `#all` stands alone among all the fields that select the same; `more` are further ones. */
export const allStandsAlone = (field: string, ...more: readonly string[]): CelRule => {
  const others = [`${field}Refs`, `${field}Ids`, ...more];
  const empty = others.map((other) => `(!has(self.${other}) || self.${other}.size() == 0)`).join(" && ");
  return {
    rule: `!has(self.${field}Roles) || !self.${field}Roles.exists(r, r == '#all') || (${empty})`,
    message: `#all selects every entity: leave ${others.slice(0, -1).join(", ")} and ${others.at(-1)} out`,
    fieldPath: `.${field}Roles`,
  };
};

export const semantic = choice(
  "AnyOf: selects entities with one of the attributes. AllOf: selects only entities with all of them. Refs and Ids always select.",
  ["AnyOf", "AllOf"],
);
