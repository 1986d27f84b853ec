/** The chart helm/sallyport, as its tests use it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Command, parseCommand } from "../../operator/src/program/settings.ts";
import { helm } from "./helm.ts";
import { documents } from "./network-chart.ts";

export const ROOT = join(import.meta.dirname, "..", "..");
export const CHART = "helm/sallyport";
export const VERSION = (JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string }).version;

/** An object of Kubernetes, of which a test looks at whatever it is about. */
export interface Rendered {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  // biome-ignore lint/suspicious/noExplicitAny: specs of many kinds
  readonly spec?: any;
  readonly rules?: readonly object[];
}

export interface RenderOptions {
  readonly release?: string;
  readonly namespace?: string;
  readonly hooks?: boolean;
}

/** What a release is made of; hooks only when asked for. */
export async function renderedText(
  values: object = {},
  { release = "sallyport", namespace = "sallyport-system", hooks = false }: RenderOptions = {},
): Promise<string> {
  const args = [
    "template",
    release,
    CHART,
    "--namespace",
    namespace,
    "--values",
    "-",
    ...(hooks ? [] : ["--no-hooks"]),
  ];
  return await helm(args, { stdin: JSON.stringify(values) });
}

export async function rendered(values: object = {}, o: RenderOptions = {}): Promise<Rendered[]> {
  return documents(await renderedText(values, o)) as unknown as Rendered[];
}

export function named(objects: readonly Rendered[], kind: string, name = "sallyport-operator"): Rendered {
  const found = objects.find((each) => each.kind === kind && each.metadata.name === name);
  if (found === undefined) throw new Error(`there is no ${kind} ${name}`);
  return found;
}

interface Container {
  readonly image: string;
  readonly args: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
}

/** The pod's only container. */
export const containerOf = (object: Rendered): Container =>
  (object.spec.template?.spec ?? object.spec).containers[0] as Container;

/** What the operator's program makes of its container's arguments and environment. */
export function commandOf(object: Rendered): Command {
  const { args, env = [] } = containerOf(object);
  return parseCommand(args, Object.fromEntries(env.map(({ name, value }) => [name, value])), VERSION);
}
