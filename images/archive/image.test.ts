import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { file } from "@sallyport/program/archive/entry";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Image, type ImageConfig, type Layer, makeImage, makeLayer } from "./image.ts";

const config: ImageConfig = {
  user: "1:2",
  entrypoint: ["/run"],
  command: ["--help"],
  env: { PATH: "/bin", MODE: "a=b" },
  workingDir: "/data",
  stopSignal: "SIGTERM",
  volumes: ["/data"],
  ports: ["80/tcp"],
  labels: { "org.opencontainers.image.version": "1.2.3" },
};
const sha256 = (bytes: Buffer) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

describe("an image", () => {
  let layers: Layer[];
  let image: Image;
  let folder: string;
  const read = (path: string) => readFileSync(join(folder, path));
  const json = (path: string) => JSON.parse(read(path).toString());
  const blob = (digest: string) => read(join("blobs", digest.replace(":", "/")));

  beforeAll(async () => {
    layers = [await makeLayer("lower", [file("/run", "1", true)]), await makeLayer("upper", [file("/data/a", "2")])];
    image = makeImage("example/thing:1.2.3", layers, config, 86_400);
    folder = mkdtempSync(join(tmpdir(), "sallyport-archive-"));
    writeFileSync(join(folder, "image.tar"), image.archive);
    execFileSync("tar", ["-xf", "image.tar"], { cwd: folder });
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("is an OCI layout whose digests are those of what they name", () => {
    expect(json("oci-layout")).toEqual({ imageLayoutVersion: "1.0.0" });
    const [described] = json("index.json").manifests;
    expect(described.digest).toBe(image.digest);
    expect(described.annotations).toEqual({
      "io.containerd.image.name": "docker.io/example/thing:1.2.3",
      "org.opencontainers.image.ref.name": "1.2.3",
    });
    const manifest = JSON.parse(blob(image.digest).toString());
    for (const { digest, size } of [described, manifest.config, ...manifest.layers]) {
      expect(sha256(blob(digest))).toBe(digest);
      expect(blob(digest).length).toBe(size);
    }
    expect(manifest.layers.map((layer: { digest: string }) => layer.digest)).toEqual(layers.map((each) => each.digest));
    const stored = JSON.parse(blob(manifest.config.digest).toString());
    const unpacked = manifest.layers.map((layer: { digest: string }) => sha256(gunzipSync(blob(layer.digest))));
    expect(stored.rootfs).toEqual({ type: "layers", diff_ids: unpacked });
  });

  it("is what docker loads, too", () => {
    const [described] = json("manifest.json");
    expect(described.RepoTags).toEqual(["example/thing:1.2.3"]);
    expect(described.Layers.map((path: string) => sha256(read(path)))).toEqual(layers.map((layer) => layer.digest));
    expect(JSON.parse(read(described.Config).toString()).config).toMatchObject({ Entrypoint: ["/run"] });
  });

  it("says how it is started", () => {
    const [described] = json("manifest.json");
    const stored = JSON.parse(read(described.Config).toString());
    expect(stored).toMatchObject({ os: "linux", created: "1970-01-02T00:00:00.000Z" });
    expect(stored.config).toEqual({
      User: "1:2",
      ExposedPorts: { "80/tcp": {} },
      Env: ["PATH=/bin", "MODE=a=b"],
      Entrypoint: ["/run"],
      Cmd: ["--help"],
      Volumes: { "/data": {} },
      WorkingDir: "/data",
      Labels: { "org.opencontainers.image.version": "1.2.3" },
      StopSignal: "SIGTERM",
    });
  });

  it("has a digest of what is in it: the same again, another with another file or setting", async () => {
    const again = makeImage("example/thing:1.2.3", layers, config, 86_400);
    expect(again.archive.equals(image.archive)).toBe(true);
    expect(makeImage("example/thing:1.2.3", layers, { ...config, user: "3:4" }, 86_400).digest).not.toBe(image.digest);
    const other = await makeLayer("upper", [file("/data/a", "3")]);
    expect(makeImage("example/thing:1.2.3", [layers[0]!, other], config, 86_400).digest).not.toBe(image.digest);
    expect(makeImage("other/name:1", layers, config, 86_400).digest).toBe(image.digest);
  });

  it.each([
    ["thing:1", "docker.io/library/thing:1"],
    ["a/b/thing:1", "docker.io/a/b/thing:1"],
    ["registry.example:5000/thing:1", "registry.example:5000/thing:1"],
    ["localhost/thing:1", "localhost/thing:1"],
  ])("with the name %s is called %s by containerd", (name, full) => {
    const { archive } = makeImage(name, layers, config);
    expect(archive.includes(`"io.containerd.image.name":"${full}"`)).toBe(true);
  });
});
