import { describe, expect, it } from "vitest";
import {
  POSTURE_REPORTS,
  POSTURE_TYPES,
  type PostureCheckType,
  type PostureReportType,
  postureCheckType,
  postureCheckUpdate,
  postureReportType,
} from "./types.ts";

describe.each(Object.entries(POSTURE_TYPES))("the type %s", (name, type) => {
  it("stands under its own short name and means itself by every name", () => {
    expect(type.typeIds).toContain(name);
    for (const id of type.typeIds) expect(postureCheckType(id)).toBe(name as PostureCheckType);
  });

  it("may be replaced without its type: then each of its fields is optional", () => {
    const { shape } = postureCheckUpdate.options.at(-1)!;
    expect(Object.keys(shape)).toEqual(expect.arrayContaining(Object.keys(type.parts.fields)));
    expect(postureCheckUpdate.safeParse({ name: "n" }).success).toBe(true);
  });

  it("shares no field with another type", () => {
    const others = Object.values(POSTURE_TYPES).filter((other) => other !== type);
    const taken = others.flatMap(({ parts }) => Object.keys(parts.fields));
    expect(Object.keys(type.parts.fields).filter((field) => taken.includes(field))).toEqual([]);
  });
});

it.each(Object.entries(POSTURE_REPORTS))("the report %s is found by both of its names", (name, { typeIds }) => {
  expect(typeIds).toContain(name);
  for (const id of typeIds) expect(postureReportType(id)).toBe(name as PostureReportType);
  expect(() => postureReportType("")).toThrow(/unknown type/);
});
