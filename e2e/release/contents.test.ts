import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { ROOT } from "../scenarios/root.ts";
import { makeRelease } from "./make-release.ts";
import { hasRelease, publicKey, RELEASE_FOLDER, VERSION } from "./offered.ts";
import { toolOf } from "./tool-of.ts";

const ARCHITECTURE = process.arch === "x64" ? "amd64" : process.arch;
const LINUX_PACKAGES = [
  ...["amd64", "arm64"].map((processor) => `sallyport_${VERSION}_${processor}.deb`),
  ...["x86_64", "aarch64"].map((processor) => `sallyport-${VERSION}.${processor}.rpm`),
];
const PROGRAMS = ["controller", "operator", "router", "tunnel"];

interface Object_ {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

describe.skipIf(!hasRelease)("a release", () => {
  const read = (path: string) => readFileSync(join(RELEASE_FOLDER, path), "utf8");
  const objects = (text: string) =>
    parseAllDocuments(text)
      .map((document) => document.toJS() as Object_)
      .sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  const keyOf = ({ kind, metadata: { name, namespace } }: Object_) => `${kind} ${namespace} ${name}`;
  const commitOfRelease = () => {
    const { metadata } = JSON.parse(read("sbom.cdx.json")) as {
      metadata: { component: { properties: { name: string; value: string }[] } };
    };
    const commit = metadata.component.properties.find(({ name }) => name === "sallyport:commit")?.value ?? "";
    expect(commit).toMatch(/^[0-9a-f]{40}$/);
    return commit;
  };
  let scratch: string;
  beforeAll(() => {
    scratch = mkdtempSync(join(tmpdir(), "sallyport-contents-"));
  });
  afterAll(() => rmSync(scratch, { recursive: true, force: true }));

  test("has everything that a user takes, under its version, and checksums of all of it", () => {
    const names = readdirSync(RELEASE_FOLDER, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(RELEASE_FOLDER.length + 1))
      .sort();
    expect(names).toEqual(
      [
        ...["CHANGELOG.md", "LICENSE", "SHA256SUMS", "crds.yaml", "install.sh", "operator.yaml"],
        ...["provenance.json", "sbom.cdx.json", ...(publicKey === undefined ? [] : ["SHA256SUMS.minisig"])],
        ...["x64", "arm64"].map((processor) => `sallyport-${VERSION}-linux-${processor}.tar.gz`),
        ...(toolOf("nfpm") === undefined ? [] : LINUX_PACKAGES),
        ...["sallyport", "sallyport-network"].map((chart) => `charts/${chart}-${VERSION}.tgz`),
        ...PROGRAMS.map((program) => `images/sallyport-${program}-${VERSION}-linux-${ARCHITECTURE}.tar`),
        ...["sdk", "cli", ...PROGRAMS].map((name) => `npm/sallyport-${name}-${VERSION}.tgz`),
      ].sort(),
    );
    const checked = execFileSync("sha256sum", ["--check", "--strict", "SHA256SUMS"], {
      cwd: RELEASE_FOLDER,
      encoding: "utf8",
    });
    expect(checked.trim().split("\n")).toHaveLength(names.length - (publicKey === undefined ? 1 : 2));
    const { subject } = JSON.parse(read("provenance.json")) as {
      subject: { name: string; digest: { sha256: string } }[];
    };
    const lines = subject.map(({ name, digest }) => `${digest.sha256}  ${name}`);
    const sums = read("SHA256SUMS").trim().split("\n");
    expect(sums.filter((line) => !line.endsWith("  provenance.json")).sort()).toEqual(lines.sort());
  });

  test("is the same, byte for byte, when it is made of the same commit in another folder", () => {
    const second = makeRelease(VERSION, commitOfRelease(), "here");
    try {
      expect(readFileSync(join(second.folder, "SHA256SUMS"), "utf8")).toBe(read("SHA256SUMS"));
    } finally {
      second.remove();
    }
  });

  test("lists in its bill of materials what is in the packages and the images", () => {
    const sbom = JSON.parse(read("sbom.cdx.json")) as {
      bomFormat: string;
      specVersion: string;
      components: { "bom-ref": string; name: string; version: string; type: string; components?: unknown[] }[];
      dependencies: { ref: string; dependsOn: string[] }[];
    };
    expect(sbom).toMatchObject({ bomFormat: "CycloneDX", specVersion: "1.6" });
    const refs = sbom.components.map((each) => each["bom-ref"]);
    expect(new Set(refs).size).toBe(refs.length);
    for (const { dependsOn } of sbom.dependencies) expect(refs).toEqual(expect.arrayContaining(dependsOn));
    const holds = (name: string, type: string) => {
      const found = sbom.components.find((each) => each.name === name && each.type === type);
      expect(found, `${type} ${name}`).toMatchObject({ version: VERSION });
      return sbom.dependencies.find(({ ref }) => ref === found?.["bom-ref"])?.dependsOn ?? [];
    };
    for (const program of PROGRAMS) {
      const parts = holds(program, "container");
      for (const part of ["pkg:generic/node@26", "pkg:deb/", "pkg:npm/pino@"])
        expect(
          parts.some((ref) => ref.startsWith(part)),
          `${program}: ${part}`,
        ).toBe(true);
    }
    expect(holds("controller", "container").join("\n")).toMatch(/pkg:generic\/postgresql@18[\s\S]*fastify@/);
    expect(holds("router", "container").join("\n")).toMatch(/pkg:deb\/\w+\/nftables@/);
    const archive = holds(`sallyport-${VERSION}-linux-arm64.tar.gz`, "application").join("\n");
    for (const part of [
      /pkg:generic\/node@26/,
      /%40embedded-postgres\/linux-arm64@/,
      /argon2-linux-arm64-gnu@/,
      /fastify@/,
      /libatomic1@.*arch=arm64/,
    ])
      expect(archive).toMatch(part);
    expect(archive).not.toMatch(/linux-x64/);
    expect(holds("sdk", "library").join("\n")).toMatch(/libsodium-wrappers@[\s\S]*tsyringe@/);
    expect(holds("tunnel", "library").join("\n")).toMatch(/libsodium-wrappers@[\s\S]*openid-client@/);
    expect(
      sbom.components.find(({ name, type }) => name === "node" && type === "platform")?.components?.length,
    ).toBeGreaterThan(5);
  });

  test("has images that are called by its version", () => {
    for (const program of PROGRAMS) {
      const archive = join(RELEASE_FOLDER, `images/sallyport-${program}-${VERSION}-linux-${ARCHITECTURE}.tar`);
      const manifest = execFileSync("tar", ["-xOf", archive, "manifest.json"], { encoding: "utf8" });
      const [image] = JSON.parse(manifest) as { RepoTags: string[]; Config: string }[];
      expect(image?.RepoTags).toEqual([`sallyport/${program}:${VERSION}`]);
      const config = execFileSync("tar", ["-xOf", archive, image?.Config ?? ""], { encoding: "utf8" });
      expect(JSON.parse(config)).toMatchObject({
        config: { Labels: { "org.opencontainers.image.version": VERSION } },
      });
    }
  });

  test("has the kinds in one file, and the operator as kustomize renders it", () => {
    expect(objects(read("crds.yaml")).map(({ kind }) => kind)).toEqual(Array(10).fill("CustomResourceDefinition"));
    const operator = read("operator.yaml");
    expect(operator).toContain(`image: sallyport/operator:${VERSION}\n`);
    const kubectl = toolOf("kubernetes", "kubectl");
    if (kubectl === undefined) return;
    const rendered = execFileSync(kubectl, ["kustomize", "operator/deploy/cluster"], { cwd: ROOT, encoding: "utf8" });
    const expected = rendered.replaceAll(/(sallyport\/operator:)\S+/g, `$1${VERSION}`);
    expect(objects(operator)).toEqual(objects(expected));
  });

  test("has charts that Helm takes", (context) => {
    const helm = toolOf("helm");
    if (helm === undefined) return context.skip("helm cannot be had on this machine");
    const run = (...args: string[]) => execFileSync(helm, args, { encoding: "utf8", stdio: "pipe" });
    const sources = join(scratch, "sources.tar");
    execFileSync("git", ["archive", "--output", sources, commitOfRelease(), "helm"], { cwd: ROOT });
    execFileSync("tar", ["-xf", sources, "-C", scratch]);
    for (const chart of ["sallyport", "sallyport-network"]) {
      const archive = join(RELEASE_FOLDER, `charts/${chart}-${VERSION}.tgz`);
      expect(run("show", "chart", archive)).toMatch(
        new RegExp(`appVersion: ${VERSION}\n[\\s\\S]*version: ${VERSION}\n`),
      );
      run("lint", archive);
      // What Helm would pack itself.
      mkdirSync(join(scratch, chart), { recursive: true });
      run(
        "package",
        join(scratch, "helm", chart),
        "--destination",
        join(scratch, chart),
        "--version",
        VERSION,
        "--app-version",
        VERSION,
      );
      const files = (path: string) =>
        execFileSync("tar", ["-tzf", path], { encoding: "utf8" }).trim().split("\n").sort();
      expect(files(archive)).toEqual(files(join(scratch, chart, `${chart}-${VERSION}.tgz`)));
    }
    const rendered = run(
      "template",
      "sallyport",
      join(RELEASE_FOLDER, `charts/sallyport-${VERSION}.tgz`),
      "--namespace",
      "any",
    );
    const images = [...rendered.matchAll(/ image: "?([^\s"]+)/g)].map(([, image]) => image);
    expect(new Set(images)).toEqual(new Set([`sallyport/operator:${VERSION}`]));
    const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../../package.json"), "utf8"));
    expect(rendered).not.toContain(`:${version}`);
  });
});
