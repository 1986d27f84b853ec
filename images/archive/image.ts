import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { completed, type Entry, file } from "@sallyport/program/archive/entry";
import { tarOf } from "@sallyport/program/archive/tar";

const compress = promisify(gzip);

/** How a container of the image is started. */
export interface ImageConfig {
  readonly user: string;
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir: string;
  readonly stopSignal: string;
  readonly volumes: readonly string[];
  readonly ports: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

export interface Layer {
  /** What the layer is, for the image's history. */
  readonly title: string;
  /** Compressed. */
  readonly blob: Buffer;
  readonly digest: string;
  /** Digest of the archive before it was compressed. */
  readonly diffId: string;
  readonly unpackedBytes: number;
}

export interface Image {
  /** Digest of the manifest: what a registry calls the image. */
  readonly digest: string;
  /** What is pulled: layers, configuration and manifest. */
  readonly bytes: number;
  readonly unpackedBytes: number;
  /** An archive that is an OCI image layout and what `docker save` writes, in one. */
  readonly archive: Buffer;
}

const TYPE = {
  index: "application/vnd.oci.image.index.v1+json",
  manifest: "application/vnd.oci.image.manifest.v1+json",
  config: "application/vnd.oci.image.config.v1+json",
  layer: "application/vnd.oci.image.layer.v1.tar+gzip",
} as const;
/** Names without a registry belong to this one, for every tool. */
const DEFAULT_REGISTRY = "docker.io";
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

/**
 * One layer; the same entries give the same digest.
 *
 * @param cache folder of layers that were compressed before, by their archives; compressing is most of the work
 */
export async function makeLayer(title: string, entries: readonly Entry[], cache?: string): Promise<Layer> {
  const archive = tarOf(completed(entries));
  const diffId = sha256(archive);
  const known = cache && join(cache, `${diffId.replace(":", "-")}-zlib-${process.versions.zlib}.gz`);
  const blob = (known && existsSync(known) && readFileSync(known)) || (await compress(archive, { level: 9 }));
  if (known && !existsSync(known)) {
    mkdirSync(dirname(known), { recursive: true });
    writeFileSync(`${known}.${process.pid}`, blob);
    renameSync(`${known}.${process.pid}`, known);
  }
  return { title, blob, digest: sha256(blob), diffId, unpackedBytes: archive.length };
}

/**
 * @param name `repository:tag`
 * @param layers lowest first
 * @param madeAt in seconds since 1970; layers are without dates, so that those that did not change are pulled once
 */
export function makeImage(name: string, layers: readonly Layer[], config: ImageConfig, madeAt = 0): Image {
  const created = new Date(madeAt * 1_000).toISOString();
  const configBlob = json({
    created,
    architecture: ARCHITECTURES[process.arch] ?? process.arch,
    os: "linux",
    config: {
      User: config.user,
      ExposedPorts: Object.fromEntries(config.ports.map((port) => [port, {}])),
      Env: Object.entries(config.env).map(([key, value]) => `${key}=${value}`),
      Entrypoint: config.entrypoint,
      Cmd: config.command,
      Volumes: Object.fromEntries(config.volumes.map((volume) => [volume, {}])),
      WorkingDir: config.workingDir,
      Labels: config.labels,
      StopSignal: config.stopSignal,
    },
    rootfs: { type: "layers", diff_ids: layers.map((layer) => layer.diffId) },
    history: layers.map((layer) => ({ created, created_by: layer.title })),
  });
  const manifest = json({
    schemaVersion: 2,
    mediaType: TYPE.manifest,
    config: descriptor(TYPE.config, configBlob),
    layers: layers.map(({ blob, digest }) => ({ mediaType: TYPE.layer, digest, size: blob.length })),
    annotations: config.labels,
  });
  const [, repository = name, tag = "latest"] = /^(.+):([^:/]+)$/.exec(name) ?? [];
  const index = json({
    schemaVersion: 2,
    mediaType: TYPE.index,
    manifests: [
      {
        ...descriptor(TYPE.manifest, manifest),
        platform: { architecture: ARCHITECTURES[process.arch] ?? process.arch, os: "linux" },
        annotations: {
          "io.containerd.image.name": `${withRegistry(repository)}:${tag}`,
          "org.opencontainers.image.ref.name": tag,
        },
      },
    ],
  });
  const docker = json([
    { Config: blobPath(sha256(configBlob)), RepoTags: [name], Layers: layers.map(({ digest }) => blobPath(digest)) },
  ]);
  // What layers are called is known: they are most of what would be summed up.
  const blobs = [...[configBlob, manifest].map((blob) => ({ blob, digest: sha256(blob) })), ...layers];
  const entries = [
    file("/oci-layout", json({ imageLayoutVersion: "1.0.0" })),
    file("/index.json", index),
    file("/manifest.json", docker),
    ...blobs.map(({ blob, digest }) => file(`/${blobPath(digest)}`, blob)),
  ];
  return {
    digest: sha256(manifest),
    bytes: blobs.reduce((sum, { blob }) => sum + blob.length, 0),
    unpackedBytes: layers.reduce((sum, layer) => sum + layer.unpackedBytes, 0),
    archive: tarOf(completed(entries)),
  };
}

function withRegistry(repository: string): string {
  const [first = "", ...rest] = repository.split("/");
  if (rest.length > 0 && (/[.:]/.test(first) || first === "localhost")) return repository;
  return rest.length > 0 ? `${DEFAULT_REGISTRY}/${repository}` : `${DEFAULT_REGISTRY}/library/${repository}`;
}

function descriptor(mediaType: string, blob: Buffer) {
  return { mediaType, digest: sha256(blob), size: blob.length };
}

function blobPath(digest: string): string {
  return `blobs/${digest.replace(":", "/")}`;
}

function sha256(bytes: Buffer): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

function json(value: unknown): Buffer {
  return Buffer.from(`${JSON.stringify(value)}\n`);
}
