/** No field is accepted and ignored: each one of every body that makes or changes something shows, or stands in a list with a reason. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { type ApiName, BASE_PATHS, type Operation, operations } from "@sallyport/api";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { FIELD_EFFECTS } from "./testing/field-effects.ts";
import { type EntityKind, entityKinds, type Sample, type SampleReferences } from "./testing/field-samples.ts";
import { sampleReferences } from "./testing/sample-references.ts";
import { startTestController, type TestController } from "./testing/test-controller.ts";

type Body = Record<string, unknown>;

/** Operations that are not those of an entity of `field-samples.ts`: their fields, and the test that shows what they do. */
const ELSEWHERE: Readonly<Record<string, { readonly fields: string; readonly test: string }>> = {
  "client updateService": {
    fields: "configs encryptionRequired maxIdleTimeMillis name roleAttributes tags terminatorStrategy",
    test: "api/network/routers.test.ts: are changed by administrators only",
  },
  "client patchService": {
    fields: "configs encryptionRequired maxIdleTimeMillis name roleAttributes tags terminatorStrategy",
    test: "api/network/routers.test.ts: are changed by administrators only",
  },
  "client createSession": {
    fields: "serviceId tags type",
    test: "api/client/client-services.test.ts: shows granted services only, makes one session per service and type, and takes it away with the policy",
  },
  "client createCurrentApiSessionCertificate": {
    fields: "csr",
    test: "model/session/session-certificates.test.ts: are bounded in number: the oldest gives way, so that what every router is told stays small",
  },
  "client createPostureResponse": {
    fields: "build domain hash id isRunning macAddresses path signerFingerprints type typeId unlocked version woken",
    test: "api/posture/posture.test.ts: gives no session while it fails, one when it passes, and takes it away when it fails again",
  },
  "client createPostureResponseBulk": {
    fields: "",
    test: "api/posture/posture.test.ts: are accepted for unknown checks, with null for what is not known, and by definition names",
  },
  ...Object.fromEntries(
    ["client", "management"].flatMap((api) => [
      [
        `${api} createMfaRecoveryCodes`,
        { fields: "code", test: "api/mfa/mfa.test.ts: shows and renews recovery codes for a code only" },
      ],
      ...["update", "patch"].map((verb) => [
        `${api} ${verb}CurrentIdentityAuthenticator`,
        {
          fields: "currentPassword password tags username",
          test: "auth/passwords.test.ts: changes with the current password, and only the fields that are there",
        },
      ]),
    ]),
  ),
  ...Object.fromEntries(
    ["client", "management"].map((api) => [
      `${api} createTotpToken`,
      {
        fields: "code",
        test: "api/credentials/revocations.test.ts: is given for a code to the session of an access token, and for nothing else",
      },
    ]),
  ),
  "management createRevocation": {
    fields: "id tags type",
    test: "api/credentials/revocations.test.ts: of a token refuses that token, and no other of its session",
  },
  "management createAuthenticator": {
    fields: "certPem identityId method password tags username",
    test: "auth/passwords.test.ts: 5.10: a second of its kind is refused: 409",
  },
  "management updateAuthenticator": {
    fields: "password tags username",
    test: "auth/withdrawn-credentials.test.ts: end when an administrator sets another one, not with another user name",
  },
  "management patchAuthenticator": {
    fields: "password tags username",
    test: "auth/withdrawn-credentials.test.ts: end when an administrator sets another one, not with another user name",
  },
  "management createEnrollment": {
    fields: "caId expiresAt identityId method username",
    test: "api/credentials/enrollment.test.ts: is outstanding once for each method",
  },
  "management updateIdentityTracing": {
    fields: "channels duration enabled traceId",
    test: "api/network/routers.test.ts: has the id that is asked for, and ends when it is switched off",
  },
  "fabric patchLink": {
    fields: "down staticCost",
    test: "api/fabric/live.test.ts: a link is shown, changed and closed",
  },
  "fabric createDatabaseSnapshotWithPath": {
    fields: "path",
    test: "api/system/database.test.ts: a snapshot is a backup in the folder of snapshots, one a minute",
  },
};

const CHANGING = (Object.keys(operations) as ApiName[]).flatMap((api) =>
  Object.entries<Operation>(operations[api])
    .filter(([id, { body }]) => /^(create|update|patch)/.test(id) && body.kind === "json")
    .map(([id, operation]) => ({ api, id, operation, collection: operation.path.split("/")[1] ?? "" })),
);

/** The schema below what makes a field optional or gives it a default. */
function bare(schema: z.ZodType): z.ZodType {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault) {
    return bare(schema.unwrap() as z.ZodType);
  }
  if (schema instanceof z.ZodPrefault) return bare(schema.unwrap() as z.ZodType);
  return schema instanceof z.ZodPipe ? bare(schema.in as z.ZodType) : schema;
}

/** Places of all fields, dots between the names. Of alternatives those that take `variant`, or all. */
function fieldsOf(given: z.ZodType, variant?: string, place = ""): string[] {
  const schema = bare(given);
  if (schema instanceof z.ZodObject) {
    return Object.entries(schema.shape).flatMap(([name, field]) =>
      fieldsOf(field as z.ZodType, undefined, place === "" ? name : `${place}.${name}`),
    );
  }
  if (!(schema instanceof z.ZodUnion) && !(schema instanceof z.ZodDiscriminatedUnion))
    return place === "" ? [] : [place];
  const alternatives = (schema.options as z.ZodType[]).map(bare).filter((each) => each instanceof z.ZodObject);
  if (alternatives.length === 0) return [place];
  const fitting = alternatives.filter(
    ({ shape }) => variant === undefined || (shape.typeId as z.ZodType).safeParse(variant).success,
  );
  return [...new Set(fitting.flatMap((each) => fieldsOf(each, undefined, place)))];
}

const at = (value: unknown, place: string): unknown =>
  place.split(".").reduce<unknown>((found, name) => (found as Body | null | undefined)?.[name], value);

/** `body` with one field set. */
function having(body: Body, place: string, value: unknown): Body {
  const [first = "", ...rest] = place.split(".");
  if (rest.length === 0) return { ...body, [first]: value };
  return { ...body, [first]: having((body[first] ?? {}) as Body, rest.join("."), value) };
}

let c: TestController;
let references: SampleReferences;
let count = 0;
const fresh = () => `sample ${count++}`;

beforeAll(async () => {
  c = await startTestController();
  references = await sampleReferences(c);
});
afterAll(() => c?.close());

test("every operation that makes or changes something is looked at", () => {
  const kinds = entityKinds(NOWHERE);
  const missing = CHANGING.filter(({ api, id, collection }) => {
    const known = ELSEWHERE[`${api} ${id}`];
    return known === undefined && !kinds.some((kind) => kind.api === api && kind.collection === collection);
  });
  expect(missing.map(({ api, id }) => `${api} ${id}`)).toEqual([]);
});

/** Is there the test of this `file: title`, or the group of that title? */
async function isATest(where: string): Promise<boolean> {
  const [, file = "", title = ""] = /^(\S+\.test\.ts): (.+)$/.exec(where) ?? [];
  const text = await readFile(join(import.meta.dirname, "..", file), "utf8").catch(() => "");
  return title !== "" && text.includes(`"${title}"`);
}

test("every effect that is named for a field is one of a test, or has a reason", async () => {
  const wrong: string[] = [];
  for (const [field, effect] of Object.entries(FIELD_EFFECTS)) {
    if (!/^shown: .{10}/.test(effect) && !(await isATest(effect))) wrong.push(`${field}: ${effect}`);
  }
  expect(wrong).toEqual([]);
  const all = entityKinds(NOWHERE).flatMap(({ collection, samples }) =>
    Object.keys(samples).map((field) => effectOf(collection, field)),
  );
  expect(all).not.toContain(undefined);
  expect(Object.keys(FIELD_EFFECTS).filter((key) => !all.includes(key))).toEqual([]);
});

/** The key of a field's effect; undefined when none is named. */
function effectOf(collection: string, field: string): string | undefined {
  return [`${collection} ${field}`, field].find((key) => key in FIELD_EFFECTS);
}

test.each(Object.entries(ELSEWHERE))(
  "%s has no other fields than another test shows",
  async (name, { fields, test: where }) => {
    expect(await isATest(where)).toBe(true);
    const operation = CHANGING.find(({ api, id }) => `${api} ${id}` === name)?.operation;
    if (operation?.body.kind !== "json") throw new Error(`there is no operation ${name}`);
    expect(fieldsOf(operation.body.schema).toSorted().join(" ")).toBe(fields);
  },
);

/** For the names of the tests only. */
const NOWHERE = new Proxy({} as SampleReferences, { get: () => Object.assign(() => "", { toString: () => "" }) });

const ofKind = ({ api, collection, variant = "" }: EntityKind) => `${api} ${collection} ${variant}`.trim();

describe.each(entityKinds(NOWHERE).map(ofKind))("of %s every field has an effect", (name) => {
  test.each(["POST", "PUT", "PATCH"])("by %s", async (method) => {
    const kind = entityKinds(references).find((each) => ofKind(each) === name);
    if (kind === undefined) throw new Error(`there are no samples for ${name}`);
    const { api, collection, variant } = kind;
    const operation = CHANGING.find(
      (each) => each.api === api && each.collection === collection && each.operation.method === method,
    )?.operation;
    if (operation?.body.kind !== "json") throw new Error(`${name} has no ${method}`);
    const problems: string[] = [];
    for (const field of fieldsOf(operation.body.schema, variant)) {
      const isKnown = kind.without?.some((each) => each.field === field && (each.methods?.includes(method) ?? true));
      if (isKnown) continue;
      const sample = kind.samples[field];
      if (effectOf(collection, field) === undefined) {
        problems.push(
          `${field}: that it is shown again is no effect: name a test of what it does, or why it does nothing`,
        );
      }
      if (sample === undefined) problems.push(`${field}: no sample, and no reason why it has no effect`);
      else problems.push(...(await problemsOf(kind, method, field, sample)));
    }
    expect(problems).toEqual([]);
  });
});

/** Sets a field, and reads whether it shows. What was made for it is gone afterwards: some values may be there once only. */
async function problemsOf(kind: EntityKind, method: string, field: string, sample: Sample): Promise<string[]> {
  const made: string[] = [];
  try {
    return await tried(kind, method, field, sample, made);
  } finally {
    for (const path of made) await c.call("DELETE", path, { token: await c.login("admin", "admin") });
  }
}

async function tried(
  kind: EntityKind,
  method: string,
  field: string,
  sample: Sample,
  paths: string[],
): Promise<string[]> {
  const { samples, onlyAtCreation = [] } = kind;
  const root = `${BASE_PATHS[kind.api]}/${kind.collection}`;
  const token = await c.login("admin", "admin");
  const ask = (verb: string, path: string, body?: Body) => c.call(verb, root + path, { token, ...(body && { body }) });
  const value = field === "name" ? fresh() : samples[field]?.value;
  const base = kind.base(fresh()) as Body;
  const set = (body: Body) => having({ ...body, ...sample.with }, field, value);
  const make = async (body: Body): Promise<{ id: string } | { problem: string }> => {
    const { status, json, text } = await ask("POST", "", body);
    if (status !== 201) return { problem: `${field}: POST answered ${status} ${text}` };
    paths.push(`${root}/${json.data.id}`);
    return { id: json.data.id };
  };
  const made = await make(base);
  if ("problem" in made) return [made.problem];
  const shown = async (id: string) => (await ask("GET", `/${id}`)).json.data;
  const before = await shown(made.id);
  let { id } = made;
  if (method === "POST") {
    const other = await make(set(kind.base(fresh()) as Body));
    if ("problem" in other) return [other.problem];
    ({ id } = other);
  } else {
    const whole = Object.fromEntries(Object.entries(base).filter(([name]) => !onlyAtCreation.includes(name)));
    const { status, text } = await ask(method, `/${id}`, set(method === "PUT" ? whole : { ...kind.patch }));
    if (status !== 200) return [`${field}: ${method} answered ${status} ${text}`];
  }
  const place = sample.at ?? field;
  const [was, is] = [at(before, place), at(await shown(id), place)];
  const isRight = sample.isPresent ? is !== undefined && is !== null : isDeepStrictEqual(is, value);
  if (isRight && !isDeepStrictEqual(is, was)) return [];
  return [
    `${field}: ${JSON.stringify(value)} has no effect, ${place} was ${JSON.stringify(was)} and is ${JSON.stringify(is)}`,
  ];
}
