import { existsSync, readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { rootCertificates } from "node:tls";
import { type Entry, file, folder } from "@sallyport/program/archive/entry";
import { isElf, readElf, withoutDebugParts } from "../elf/elf.ts";
import { librariesOf, type Placed, systemFolders } from "../elf/libraries.ts";
import { DATA_FOLDER, NODE, USER } from "../programs.ts";
import { packageLicenses } from "./license-entries.ts";
import { systemLicenses } from "./system-licenses.ts";

const ANYONE = 0o1777;
/** What the C library of some systems loads to resolve names without being linked to it; in newer ones it is built in. */
const RESOLVERS = ["libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2"];

/**
 * What every image stands on: Node, the libraries that it needs, users, certificates of public authorities, and the places that a program writes to.
 *
 * @param node the program, in the package of npm that brings it
 * @throws LicenseError where the text of a licence is missing
 */
export function baseEntries(node: string): Entry[] {
  const { arch } = readElf(readFileSync(node), node);
  const resolvers = RESOLVERS.flatMap(
    (name) =>
      systemFolders(arch)
        .map((each) => join(each, name))
        .find(existsSync) ?? [],
  );
  const placedResolvers = resolvers.map((path) => ({
    path: path.replace(/^\/lib/, "/usr/lib"),
    source: realpathSync(path),
  }));
  const system = [...librariesOf([node, ...resolvers]), ...placedResolvers];
  return [
    ...placedEntries([{ path: NODE, source: node }, ...system]),
    ...packageLicenses([dirname(dirname(node))]),
    ...systemLicenses(system.map(({ source }) => source)),
    ...accounts(),
    // Runtimes put their own over it.
    file("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    file("/etc/ssl/certs/ca-certificates.crt", `${rootCertificates.join("\n")}\n`),
    folder("/etc/sallyport"),
    folder(DATA_FOLDER, 0o750, USER),
    folder("/tmp", ANYONE),
  ];
}

/** Programs and libraries of this machine, without what only debuggers read. */
export function placedEntries(files: readonly Placed[]): Entry[] {
  return files.map(({ path, source }) => {
    const bytes = readFileSync(source);
    return file(path, isElf(bytes) ? withoutDebugParts(bytes, source) : bytes, true);
  });
}

function accounts(): Entry[] {
  const { name, uid, gid } = USER;
  const users = ["root:x:0:0:root:/tmp:", `${name}:x:${uid}:${gid}:Sallyport:${DATA_FOLDER}:`];
  return [
    file("/etc/passwd", users.map((user) => `${user}\n`).join("")),
    file("/etc/group", `root:x:0:\n${name}:x:${gid}:\n`),
  ];
}
