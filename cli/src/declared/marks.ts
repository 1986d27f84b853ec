/** How entities are known as those of files that were applied. */
import { COMMAND_LINE, OWNER_TAGS, type Owner, type Tags } from "@sallyport/resources";

export const STANDARD_NAMESPACE = "default";

export type Labels = Readonly<Record<string, string>>;

interface Place {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}

/** Stands for the UID of an object in a cluster. */
export const fileUid = ({ kind, namespace, name }: Place): string => `${COMMAND_LINE}/${kind}/${namespace}/${name}`;

interface Remembered {
  readonly labels?: Labels;
  readonly deletionPolicy?: string | undefined;
  readonly hasServiceConfigs?: boolean;
}

/** The resource as owner of its entity. Every user who applies the file is the same owner. */
export function fileOwner(
  { kind, namespace, name }: Place,
  { labels = {}, deletionPolicy, hasServiceConfigs }: Remembered = {},
  ordinal?: number,
): Owner {
  const sorted = Object.fromEntries(Object.entries(labels).sort());
  return {
    cluster: COMMAND_LINE,
    ...{ kind, namespace, name, ordinal },
    uid: fileUid({ kind, namespace, name }),
    marks: {
      ...(Object.keys(labels).length > 0 && { [OWNER_TAGS.labels]: JSON.stringify(sorted) }),
      ...(deletionPolicy === "Orphan" && { [OWNER_TAGS.deletionPolicy]: deletionPolicy }),
      ...(hasServiceConfigs === true && { [OWNER_TAGS.serviceConfigs]: "true" }),
    },
  };
}

/** What the tags of an entity say of the file that it comes from; undefined where no file was applied. */
export interface Mark extends Place {
  readonly ordinal: number | undefined;
  readonly labels: Labels;
  readonly isOrphaned: boolean;
}

export function markOf(tags: Tags | null | undefined): Mark | undefined {
  const text = (key: string): string | undefined => {
    const value = tags?.[key];
    return typeof value === "string" ? value : undefined;
  };
  const [kind, namespace, name] = [text(OWNER_TAGS.kind), text(OWNER_TAGS.namespace), text(OWNER_TAGS.name)];
  if (text(OWNER_TAGS.cluster) !== COMMAND_LINE || kind === undefined) return undefined;
  if (namespace === undefined || name === undefined) return undefined;
  const ordinal = text(OWNER_TAGS.ordinal);
  return {
    ...{ kind, namespace, name },
    ordinal: ordinal === undefined ? undefined : Number(ordinal),
    labels: labelsIn(text(OWNER_TAGS.labels)),
    isOrphaned: text(OWNER_TAGS.deletionPolicy) === "Orphan",
  };
}

export function labelsIn(json: string | undefined): Labels {
  try {
    const value: unknown = JSON.parse(json ?? "{}");
    if (typeof value !== "object" || value === null) return {};
    return Object.fromEntries(Object.entries(value).filter(([, each]) => typeof each === "string"));
  } catch {
    // Another client wrote it: then no selector finds the entity.
    return {};
  }
}
