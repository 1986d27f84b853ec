import { parseArgs } from "node:util";
import { UsageError } from "./command.ts";
import { type CaFiles, caFiles } from "./imported-ca.ts";

/** `sallyport-controller pki …` */
export type PkiCommand = { readonly command: "pki"; readonly file: string } & (
  | { readonly action: "status" }
  | { readonly action: "rotate"; readonly newKeys: boolean; readonly imported?: CaFiles | undefined }
  | { readonly action: "retire"; readonly isForced: boolean }
);

export const PKI_USAGE = `  sallyport-controller pki status FILE
      Shows which authorities the network trusts, and how many certificates of a former one are in use.
  sallyport-controller pki rotate FILE [--new-keys] [--ca-cert PEM --ca-key PEM]
      Replaces root and signing CA. The former ones stay trusted until all their certificates were renewed.
      The controller may run; it applies the change at once.
        --new-keys          replace the controller's own keys, too; enrollment tokens are then signed again
        --ca-cert PEM --ca-key PEM   rotate to your own authority, as with init
  sallyport-controller pki rotate FILE --retire [--force]
      Ends the trust in the former authority; with --force even if its certificates are in use.
`;

/** @throws UsageError */
export function parsePkiCommand(args: readonly string[]): PkiCommand {
  const [action, ...rest] = args;
  if (action !== "status" && action !== "rotate") {
    throw new UsageError(`pki needs an action: expected status or rotate, found ${action ?? "nothing"}`);
  }
  const { values, positionals } = optionsOf(rest);
  const [file, ...more] = positionals;
  if (file === undefined || more.length > 0) {
    throw new UsageError(
      `pki ${action} needs exactly one configuration file: sallyport-controller pki ${action} controller.yml`,
    );
  }
  const { "new-keys": newKeys = false, retire = false, force = false } = values;
  const imported = caFiles(values["ca-cert"], values["ca-key"]);
  const forRotation = newKeys || imported !== undefined;
  if (action === "status") {
    if (forRotation || retire || force) throw new UsageError("pki status takes no options");
    return { command: "pki", action, file };
  }
  if (!retire) {
    if (force) throw new UsageError("--force belongs to --retire");
    return { command: "pki", action: "rotate", file, newKeys, imported };
  }
  if (forRotation) throw new UsageError("--retire ends a rotation: it takes no other option but --force");
  return { command: "pki", action: "retire", file, isForced: force };
}

function optionsOf(args: readonly string[]) {
  const [text, flag] = [{ type: "string" }, { type: "boolean" }] as const;
  const options = { "ca-cert": text, "ca-key": text, "new-keys": flag, retire: flag, force: flag };
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}
