/** What one process may say for itself where several share a configuration file and a database. */
import { ConfigError, type ConfigProblem, type Environment } from "@sallyport/config-file";
import type { HostPort } from "@sallyport/wire";
import { z } from "zod";
import { listenAddress, publicAddress } from "./values.ts";

const ID =
  "an id of at most 63 lower-case letters, digits, dots and hyphens that begins and ends with a letter or a digit";

/** A variable that is not set leaves an empty text, which counts as no value. */
const given = <T extends z.ZodType>(type: T) =>
  z.preprocess((text) => (text === "" ? undefined : text), type.optional());

const replicaId = z
  .union([z.string(), z.number()], ID)
  .transform(String)
  .refine((text) => /^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$/.test(text), ID);

const WORKERS = "a whole number from 1 to 64";
const workerCount = z
  .union([z.string(), z.number()], WORKERS)
  .refine((count) => /^\d{1,2}$/.test(String(count)), WORKERS)
  .transform(Number)
  .refine((count) => count >= 1 && count <= 64, WORKERS);

const addresses = { bind: given(listenAddress), advertise: given(publicAddress) };

/** The section `replica` of `controller.yml`. */
export const replicaSchema = z
  .object({
    id: given(replicaId),
    workers: given(workerCount).transform((count) => count ?? 1),
    api: z.object(addresses).prefault({}),
    ctrl: z.object(addresses).prefault({}),
    metrics: z.object({ bind: given(listenAddress) }).prefault({}),
  })
  .prefault({});

type Replica = z.infer<typeof replicaSchema>;

/** The same key as an option of `run`, without the hyphens in front. An option goes before a variable, and a variable before the file. */
const OPTIONS = [
  "replica-id",
  "replica-workers",
  "replica-api-bind",
  "replica-api-advertise",
  "replica-ctrl-bind",
  "replica-ctrl-advertise",
  "replica-metrics-bind",
] as const;

/** Texts by the name of the option. */
export type ReplicaOptions = Readonly<Partial<Record<(typeof OPTIONS)[number], string>>>;

/** The names of all options of {@link ReplicaOptions}. */
export const REPLICA_OPTIONS: readonly (keyof ReplicaOptions)[] = OPTIONS;

/**
 * The section with what options and variables (`--replica-id`, `SALLYPORT_REPLICA_ID`) say in place of it.
 * @throws ConfigError with every option and variable that cannot be used
 */
export function replicaOf(section: Replica, options: ReplicaOptions, env: Environment): Replica {
  const problems: ConfigProblem[] = [];
  const said = <T>(option: keyof ReplicaOptions, type: z.ZodType<T | undefined>, otherwise: T | undefined) => {
    const variable = `SALLYPORT_${option.replaceAll("-", "_").toUpperCase()}`;
    const text = options[option] ?? (env[variable] || undefined);
    if (text === undefined) return otherwise;
    const { success, data, error } = type.safeParse(text);
    if (success && data !== undefined) return data;
    const path = options[option] === undefined ? variable : `--${option}`;
    problems.push({ path, expected: error?.issues[0]?.message ?? "a value", found: JSON.stringify(text) });
    return otherwise;
  };
  const replica: Replica = {
    id: said<string>("replica-id", replicaId, section.id),
    workers: said<number>("replica-workers", workerCount, section.workers) ?? 1,
    api: {
      bind: said<HostPort>("replica-api-bind", listenAddress, section.api.bind),
      advertise: said<HostPort>("replica-api-advertise", publicAddress, section.api.advertise),
    },
    ctrl: {
      bind: said<HostPort>("replica-ctrl-bind", listenAddress, section.ctrl.bind),
      advertise: said<HostPort>("replica-ctrl-advertise", publicAddress, section.ctrl.advertise),
    },
    metrics: { bind: said<HostPort>("replica-metrics-bind", listenAddress, section.metrics.bind) },
  };
  if (problems.length > 0) throw new ConfigError(undefined, problems);
  return replica;
}
