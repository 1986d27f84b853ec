/** What is read from a Secret, and what a Secret becomes: nothing of others is lost, nothing that can't be read is trusted. */

import type { IdentityResource } from "@sallyport/resources";
import { identityDefinition } from "@sallyport/resources/definitions";
import { admit } from "@sallyport/resources/testing/admit";
import { sample } from "@sallyport/resources/testing/samples";
import type { IdentityFile } from "@sallyport/sdk";
import { describe, expect, test } from "vitest";
import type { SecretObject } from "../../../kube/kinds.ts";
import { contentOf, heldSecret, isSameSecret, type SecretContent, secretWith } from "./identity-secret.ts";

function identity(spec: Readonly<Record<string, unknown>> = {}, uid = "u1"): IdentityResource {
  const { object } = admit(identityDefinition, sample("Identity", spec, "bot"));
  const resource = object as unknown as IdentityResource;
  return { ...resource, metadata: { ...resource.metadata, namespace: "default", name: "bot", uid } };
}

const secret = (changes: Partial<SecretObject> = {}): SecretObject => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name: "bot-identity", namespace: "default", resourceVersion: "5" },
  ...changes,
});
const owned = (data: Readonly<Record<string, string>>): SecretObject =>
  secret({
    metadata: { name: "bot-identity", annotations: { "sallyport.dev/owner": "Identity/bot" } },
    data: Object.fromEntries(Object.entries(data).map(([key, text]) => [key, Buffer.from(text).toString("base64")])),
  });
const FILE: IdentityFile = { ztAPI: "https://c:1280/edge/client/v1", id: { key: "pem:K", cert: "pem:C", ca: "pem:A" } };
const written = (content: SecretContent, found?: SecretObject, resource = identity()) =>
  secretWith(content, found, resource, "bot-identity");

describe("a Secret is whose", () => {
  const owner = (uid: string) => [{ apiVersion: "sallyport.dev/v1alpha1", kind: "Identity", name: "bot", uid }];
  // biome-ignore format: a table
  test.each([
    ["nobody's", {}, "foreign"],
    ["the owner's", { ownerReferences: owner("u1") }, "ours"],
    ["another owner's", { ownerReferences: owner("u0") }, "foreign"],
    ["a resource's of the same name, which is gone", { annotations: { "sallyport.dev/owner": "Identity/bot" } }, "ours"],
    ["another resource's", { annotations: { "sallyport.dev/owner": "Identity/other" } }, "foreign"],
    ["another kind's", { annotations: { "sallyport.dev/owner": "EdgeRouter/bot" } }, "foreign"],
    ["another owner's that took over a label", { labels: { "app.kubernetes.io/managed-by": "sallyport" } }, "foreign"],
  ])("%s", (_whose, metadata, state) => {
    expect(heldSecret(secret({ metadata: { name: "bot-identity", ...metadata } }), identity()).state).toBe(state);
  });

  test("absent when there is none", () => {
    expect(heldSecret(undefined, identity())).toEqual({ state: "absent" });
  });
});

describe("what is in a Secret", () => {
  test("comes back as it was written", () => {
    const since = new Date("2026-11-22T12:00:00Z");
    const enrolling = { identityId: "i1", ztAPI: FILE.ztAPI, key: "K", ca: "A" };
    const content = { token: "t", identity: FILE, next: { file: FILE, since }, enrolling, reEnroll: "1" };
    expect(contentOf(written(content))).toEqual(content);
    expect(contentOf(written({}))).toEqual({});
  });

  // biome-ignore format: a table
  test.each([
    ["no JSON", { "identity.json": "{", "next-identity.json": "", "enrolling.json": "null" }],
    ["other JSON", { "identity.json": "[]", "next-identity.json": '{"ztAPI":1}', "enrolling.json": '{"identityId":"i1"}' }],
    ["a certificate that is none", { "identity.json": JSON.stringify(FILE), "next-identity.json": JSON.stringify(FILE), "enrolling.json": "7" }],
  ])("is nothing when it is %s", (_what, data) => {
    const held = heldSecret(owned(data), identity());
    expect(held).toMatchObject({ state: "ours" });
    for (const part of ["identity", "next", "enrolling"]) expect(held).not.toHaveProperty(part, expect.anything());
  });
});

describe("a Secret that is written", () => {
  test("keeps labels, annotations, keys and owners of others, and loses what is not wanted any more", () => {
    const others = [{ apiVersion: "v1", kind: "ConfigMap", name: "x", uid: "x" }];
    const metadata = { name: "bot-identity", labels: { a: "b" }, annotations: { c: "d" }, ownerReferences: others };
    const found = written({ token: "t", reEnroll: "1" }, secret({ metadata, data: { theirs: "eA==" } }));
    const next = written({ identity: FILE }, found);
    expect(next.metadata.labels).toMatchObject({ a: "b", "app.kubernetes.io/managed-by": "sallyport" });
    expect(next.metadata.annotations).toEqual({ c: "d", "sallyport.dev/owner": "Identity/bot" });
    expect(next.metadata.ownerReferences?.map(({ uid }) => uid)).toEqual(["x", "u1"]);
    expect(Object.keys(next.data ?? {}).sort()).toEqual(["ca.crt", "identity.json", "theirs", "tls.crt", "tls.key"]);
    expect(next.data?.["tls.key"]).toBe(Buffer.from("K").toString("base64"));
  });

  test("has no owner when it shall outlive its resource, and gets the new one when it is taken up", () => {
    const kept = written({ identity: FILE }, written({ identity: FILE }), identity({ deletionPolicy: "Orphan" }));
    expect(kept.metadata.ownerReferences).toEqual([]);
    const taken = written({ identity: FILE }, kept, identity({}, "u2"));
    expect(taken.metadata.ownerReferences).toMatchObject([{ uid: "u2", controller: true }]);
  });

  test("is the same when it is written again", () => {
    const once = written({ token: "t" });
    expect(isSameSecret(written({ token: "t" }, once), once)).toBe(true);
    expect(isSameSecret(written({ token: "u" }, once), once)).toBe(false);
    expect(isSameSecret(once, undefined)).toBe(false);
  });
});
