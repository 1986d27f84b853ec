/** What every record, link and reference has (`docs/api.md`, "Shapes"). Answers are strict: a key not named here is a fault. */
import { z } from "zod";
import { tags, time } from "./scalars.ts";

export const link = z.strictObject({ href: z.string(), method: z.string().optional(), comment: z.string().optional() });
export const links = z.record(z.string(), link);

/** The fields that every record begins with. */
export const base = { _links: links, createdAt: time, id: z.string(), tags: tags.optional(), updatedAt: time };

export const entityRef = z.strictObject({
  _links: links,
  entity: z.string().optional(),
  id: z.string().optional(),
  name: z.string().optional(),
});
export type EntityRef = z.infer<typeof entityRef>;

export const namedRoles = z.array(z.strictObject({ role: z.string().optional(), name: z.string().optional() }));

/** The `data` of a creation. */
export const createLocation = z.strictObject({ _links: links, id: z.string() });

export const pagination = z.strictObject({ limit: z.int(), offset: z.int(), totalCount: z.int() });
export const meta = z.strictObject({
  filterableFields: z.array(z.string()).optional(),
  pagination: pagination.optional(),
  apiVersion: z.string().optional(),
  apiEnrollmentVersion: z.string().optional(),
});
export type Meta = z.infer<typeof meta>;

const cause = z.strictObject({
  code: z.string().optional(),
  message: z.string().optional(),
  requestId: z.string().optional(),
  field: z.string().optional(),
  reason: z.string().optional(),
  value: z.string().optional(),
  data: z.record(z.string(), z.unknown()).optional(),
  get cause() {
    return cause.optional();
  },
});

/** Every failure but 413 before the request is understood, which is the bare `error` object. */
export const errorEnvelope = z.strictObject({
  error: z.strictObject({ code: z.string(), message: z.string(), requestId: z.string(), cause: cause.optional() }),
  meta: z.strictObject({ apiVersion: z.string(), apiEnrollmentVersion: z.string() }),
});
