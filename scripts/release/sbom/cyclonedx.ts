/** A bill of materials in the form of CycloneDX 1.6 (JSON). The same parts give the same bytes. */
import { createHash } from "node:crypto";

export interface Component {
  readonly type: "application" | "container" | "library" | "platform";
  /** Package URL: what it is, and how the document refers to it. */
  readonly purl: string;
  readonly group?: string;
  readonly name: string;
  readonly version: string;
  /** As its maker says it: an SPDX expression, or other words. */
  readonly license?: string;
  readonly hashes?: readonly { readonly alg: "SHA-256" | "SHA-512"; readonly content: string }[];
  /** What is compiled into it. */
  readonly components?: readonly Component[];
}

/** Something of the release, with all that it holds or asks for. */
export interface Artifact {
  readonly component: Component;
  readonly parts: readonly Component[];
}

const SPDX = /^\(?[A-Za-z0-9.+-]+(?: (?:AND|OR|WITH) \(?[A-Za-z0-9.+-]+\)?)*\)?$/;

/**
 * @param madeAt in seconds since 1970
 * @param source what the release was made of: its commit
 */
export function billOfMaterials(
  version: string,
  source: string,
  madeAt: number,
  artifacts: readonly Artifact[],
): object {
  const root = { type: "application", name: "sallyport", version, purl: `pkg:generic/sallyport@${version}` } as const;
  const all = new Map(
    artifacts.flatMap(({ component, parts }) => [component, ...parts]).map((each) => [each.purl, each]),
  );
  const sorted = [...all.values()].sort((a, b) => (a.purl < b.purl ? -1 : 1));
  const dependencies = [
    { ref: root.purl, dependsOn: artifacts.map(({ component }) => component.purl).sort() },
    ...artifacts.map(({ component, parts }) => ({
      ref: component.purl,
      dependsOn: [...new Set(parts.map(({ purl }) => purl))].sort(),
    })),
  ];
  return {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${uuidOf(`${version} ${source}`)}`,
    version: 1,
    metadata: {
      timestamp: new Date(madeAt * 1_000).toISOString(),
      component: { ...written(root), properties: [{ name: "sallyport:commit", value: source }] },
    },
    components: sorted.map(written),
    dependencies: dependencies.sort((a, b) => (a.ref < b.ref ? -1 : 1)),
  };
}

/** `pkg:npm/%40scope/name@1.2.3` */
export function npmUrl(name: string, version: string): string {
  return `pkg:npm/${name.replace(/^@/, "%40")}@${version}`;
}

function written({ license, components, purl, ...rest }: Component): object {
  const licenses =
    license === undefined ? undefined : [SPDX.test(license) ? { expression: license } : { license: { name: license } }];
  return {
    "bom-ref": purl,
    ...rest,
    purl,
    ...(licenses === undefined ? {} : { licenses }),
    ...(components === undefined ? {} : { components: components.map(written) }),
  };
}

/** The same text, the same number: in the form of a UUID made of a name. */
function uuidOf(name: string): string {
  const hex = createHash("sha256").update(name).digest("hex");
  const variant = ((Number.parseInt(hex[16] ?? "0", 16) & 0x3) | 0x8).toString(16);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join("-");
}
