/** What `--expose` and `--serve` say. */
import { isIP } from "node:net";
import { basename, resolve } from "node:path";
import { UsageError } from "../errors.ts";

/** A service of a quick start, and the program that it leads to. */
export interface Exposure {
  readonly name: string;
  readonly host: string;
  readonly port: number;
}

const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
const HOST = /^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?$/;

/** `[NAME=]PORT` or `[NAME=]HOST:PORT`. @throws UsageError */
export function exposureOf(text: string): Exposure {
  const [, named, target = ""] = /^(?:([^=]*)=)?(.*)$/s.exec(text) ?? [];
  const [, bracketed, plain, digits = ""] = /^(?:\[([^\]]*)\]:|([^:]*):)?(\d{1,5})$/.exec(target) ?? [];
  const host = bracketed ?? plain ?? "127.0.0.1";
  const port = Number(digits);
  const isHost = bracketed === undefined ? HOST.test(host) : isIP(host) === 6;
  if (!isHost || port < 1 || port > 65_535) {
    throw new UsageError(
      `--expose expects [NAME=]PORT or [NAME=]HOST:PORT, such as web=8080 or db=10.0.0.5:5432, found '${text}'`,
    );
  }
  return { name: checkedServiceName(named ?? standardName(plain, bracketed, port)), host, port };
}

/** A folder whose files are a service. */
export interface ServedFolder {
  readonly name: string;
  readonly folder: string;
}

/** `[NAME=]DIR`. @throws UsageError */
export function servedFolderOf(text: string): ServedFolder {
  const [, named, folder = ""] = /^(?:([a-z0-9-]*)=)?(.*)$/s.exec(text) ?? [];
  if (folder === "") throw new UsageError(`--serve expects [NAME=]DIR, such as files=/srv/www, found '${text}'`);
  const standard = dashed(basename(resolve(folder))).slice(0, 63) || "files";
  return { name: checkedServiceName(named ?? standard), folder: resolve(folder) };
}

/** Part of a host name, as the service gets one for interception. @throws UsageError */
export function checkedServiceName(name: string): string {
  if (NAME.test(name)) return name;
  throw new UsageError(
    `'${name}' cannot be the name of a service here: expected at most 63 small letters, digits and '-', such as web-1`,
  );
}

/** @throws UsageError where two have one name */
export function checkNoDoubles(services: readonly { readonly name: string }[]): void {
  for (const [at, { name }] of services.entries()) {
    if (services.findIndex((each) => each.name === name) !== at)
      throw new UsageError(
        `two services would be called '${name}': name them, such as --expose ${name}-2=PORT or --serve ${name}-2=DIR`,
      );
  }
}

function standardName(plain: string | undefined, bracketed: string | undefined, port: number): string {
  const host = dashed(bracketed ?? plain ?? "");
  const isOwn = host === "" || host === "localhost" || host.startsWith("127-0-0-");
  return isOwn ? `port-${port}` : `${host.slice(0, 57)}-${port}`;
}

function dashed(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-+|-+$/g, "");
}
