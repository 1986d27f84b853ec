/** A large network, written into the tables of our schema directly: creating it through the API would take many minutes and measure nothing new. */
import type pg from "pg";
import { seededRandom } from "./random.ts";

export interface LargeSize {
  readonly identities: number;
  readonly services: number;
  readonly policies: number;
  readonly identityAttributes: number;
  readonly serviceAttributes: number;
}

/** Everything by one factor: `1` is the full size. */
export function largeSize(divisor: number): LargeSize {
  return {
    identities: 100_000 / divisor,
    services: 10_000 / divisor,
    policies: 1_000 / divisor,
    identityAttributes: 500 / divisor,
    serviceAttributes: 300 / divisor,
  };
}

const ROUTERS = 200;
const BATCH = 5_000;

/**
 * Attributes are drawn with a probability that falls with their number (1/k): a few are everywhere, most are rare. 5 % of the policies are for all identities,
 * 5 % name ten identities and five services by id, the others one to four attributes on each side, half of them AnyOf.
 */
export async function fillLarge(database: pg.Client, size: LargeSize): Promise<void> {
  const random = seededRandom(42);
  const drawer = (count: number) => {
    const weights: number[] = [];
    let sum = 0;
    for (let k = 1; k <= count; k++) {
      sum += 1 / k;
      weights.push(sum);
    }
    return (): number => {
      const at = random() * sum;
      return weights.findIndex((weight) => weight >= at);
    };
  };
  const distinct = (many: number, prefix: string, draw: () => number): string[] => {
    const found = new Set<string>();
    while (found.size < many) found.add(`${prefix}${draw()}`);
    return [...found];
  };
  const identityAttribute = drawer(size.identityAttributes);
  const serviceAttribute = drawer(size.serviceAttributes);
  const uniform = (count: number) => (): number => Math.floor(random() * count);
  const some = uniform(4);

  await inBatches(size.identities, async (rows) => {
    const identities = rows.map((index) => ({
      id: identityId(index),
      name: `identity-${numbered(index)}`,
      attrs: distinct(3, "i", identityAttribute),
      tags: { site: `s${index % 1_000}` },
      age: size.identities - index,
    }));
    await database.query(
      `INSERT INTO identity (id, name, type_id, attrs, tags, created_at)
       SELECT id, name, 'Default', attrs, tags, now() - make_interval(secs => age)
       FROM jsonb_to_recordset($1) AS r (id text, name text, attrs text[], tags jsonb, age int)`,
      [JSON.stringify(identities)],
    );
  });
  await inBatches(size.services, async (rows) => {
    const services = rows.map((index) => ({
      id: serviceId(index),
      name: `service-${numbered(index)}`,
      attrs: distinct(2, "s", serviceAttribute),
    }));
    await database.query(
      `INSERT INTO service (id, name, attrs, encryption_required)
       SELECT id, name, attrs, true FROM jsonb_to_recordset($1) AS r (id text, name text, attrs text[])`,
      [JSON.stringify(services)],
    );
  });
  await database.query(
    `INSERT INTO router (id, name, attrs) SELECT 'router-' || n, 'router-' || n, ARRAY['r' || n % 20] FROM generate_series(1, $1::int) n`,
    [ROUTERS],
  );
  await inBatches(size.policies, async (rows) => {
    const policies = rows.map((index) => {
      const kind = index % 20;
      const forAll = kind === 0;
      const byId = kind === 1;
      return {
        id: `policy-${numbered(index)}`,
        name: `policy-${numbered(index)}`,
        semantic: index % 2 === 0 ? "AnyOf" : "AllOf",
        type: index % 3 === 0 ? "Bind" : "Dial",
        identity_all: forAll,
        identity_attrs: forAll || byId ? [] : distinct(1 + some(), "i", uniform(size.identityAttributes)),
        service_attrs: byId ? [] : distinct(forAll ? 1 : 1 + some(), "s", uniform(size.serviceAttributes)),
        refs: byId
          ? [
              ...distinct(10, "", uniform(size.identities)).map((n) => ["identity", identityId(Number(n))]),
              ...distinct(5, "", uniform(size.services)).map((n) => ["service", serviceId(Number(n))]),
            ]
          : [],
      };
    });
    await database.query(
      `INSERT INTO service_policy (id, name, semantic, type, identity_all, identity_attrs, service_attrs)
       SELECT id, name, semantic, type, identity_all, identity_attrs, service_attrs FROM jsonb_to_recordset($1)
         AS r (id text, name text, semantic text, type text, identity_all boolean, identity_attrs text[], service_attrs text[])`,
      [JSON.stringify(policies)],
    );
    await database.query(
      `INSERT INTO service_policy_ref (policy_id, side, entity_id)
       SELECT p.id, r ->> 0, r ->> 1 FROM jsonb_to_recordset($1) AS p (id text, refs jsonb), jsonb_array_elements(p.refs) r`,
      [JSON.stringify(policies)],
    );
  });
  await database.query(
    `INSERT INTO edge_router_policy (id, name, semantic, identity_attrs, router_attrs)
     SELECT 'erp-' || n, 'erp-' || n, 'AnyOf', ARRAY['i' || n], ARRAY['r' || n % 20] FROM generate_series(0, 49) n`,
  );
  await database.query(
    `INSERT INTO service_edge_router_policy (id, name, semantic, service_attrs, router_attrs)
     SELECT 'serp-' || n, 'serp-' || n, 'AnyOf', ARRAY['s' || n], ARRAY['r' || n % 20] FROM generate_series(0, 49) n`,
  );
  await database.query("VACUUM ANALYZE");
}

export function identityId(index: number): string {
  return `big${index.toString(36).padStart(8, "0")}`;
}

export function serviceId(index: number): string {
  return `srv${index.toString(36).padStart(8, "0")}`;
}

export function numbered(index: number): string {
  return String(index).padStart(6, "0");
}

async function inBatches(count: number, write: (indices: number[]) => Promise<void>): Promise<void> {
  for (let start = 0; start < count; start += BATCH) {
    await write(Array.from({ length: Math.min(BATCH, count - start) }, (_, at) => start + at));
  }
}
