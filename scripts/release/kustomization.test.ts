import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { KustomizationError, manifestFile, renderKustomization } from "./kustomization.ts";

const ROOT = join(import.meta.dirname, "../..");

describe("a kustomization", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "sallyport-kustomization-"));
    mkdirSync(join(folder, "base"));
    const objects = [
      "kind: ServiceAccount\nmetadata: {name: own}",
      "kind: ClusterRoleBinding\nmetadata: {name: rights}\nsubjects: [{kind: ServiceAccount, name: own}, {kind: ServiceAccount, name: other}, {kind: User, name: own}]",
    ];
    writeFileSync(join(folder, "base/objects.yaml"), objects.join("\n---\n"));
    writeFileSync(join(folder, "base/kustomization.yaml"), "resources: [objects.yaml]\n");
    writeFileSync(join(folder, "namespace.yaml"), "kind: Namespace\nmetadata: {name: somewhere}\n");
    kustomization("namespace: here\nresources: [namespace.yaml, base]\n");
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));
  const kustomization = (text: string) => writeFileSync(join(folder, "kustomization.yaml"), text);

  it("gives its objects and those of folders, in its namespace", () => {
    expect(renderKustomization(folder)).toEqual([
      { kind: "Namespace", metadata: { name: "here" } },
      { kind: "ServiceAccount", metadata: { name: "own", namespace: "here" } },
      {
        kind: "ClusterRoleBinding",
        metadata: { name: "rights" },
        subjects: [
          { kind: "ServiceAccount", name: "own", namespace: "here" },
          { kind: "ServiceAccount", name: "other" },
          { kind: "User", name: "own" },
        ],
      },
    ]);
  });

  it("is refused when it asks for more, or is not there", () => {
    kustomization("resources: [base]\nnamePrefix: a-\n");
    expect(() => renderKustomization(folder)).toThrow(KustomizationError);
    expect(() => renderKustomization(folder)).toThrow("namePrefix is not done here");
    expect(() => renderKustomization(join(folder, "nowhere"))).toThrow("is not there");
  });
});

it("the operator's own is rendered with its kinds, and read back is the same", () => {
  const objects = renderKustomization(join(ROOT, "operator/deploy/cluster"));
  const kinds = objects.map(({ kind }) => kind);
  expect(kinds.filter((kind) => kind === "CustomResourceDefinition")).toHaveLength(10);
  expect(kinds).toEqual(expect.arrayContaining(["Namespace", "Deployment", "ClusterRole", "ServiceAccount", "Role"]));
  const text = manifestFile(objects, "The operator.");
  expect(parseAllDocuments(text).map((document) => document.toJS())).toEqual(objects);
});
