import {
  create,
  type DescMessage,
  fromBinary,
  type JsonValue,
  type MessageInitShape,
  type MessageShape,
  toBinary,
  toJson,
} from "@bufbuild/protobuf";
import { errorText } from "@sallyport/async";
import { ControlType, EdgeCtrlType } from "./catalogue/control.ts";
import { ProtocolError } from "./errors.ts";
import { hasMoreFields } from "./field-count.ts";
import * as ctrlPb from "./generated/ctrl_pb.ts";
import * as edgeCtrlPb from "./generated/edge_ctrl_pb.ts";
import * as metricsPb from "./generated/metrics_pb.ts";

/**
 * The body of a control message: the protobuf encoding of the fields given, all others at their defaults.
 *
 * @example channel.send({ contentType: ControlType.Unroute, body: encodeControl(ctrlPb.UnrouteSchema, { circuitId, now: true }) })
 */
export function encodeControl<S extends DescMessage>(schema: S, fields: MessageInitShape<S>): Buffer {
  const bytes = toBinary(schema, create(schema, fields));
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/**
 * Reads the body of a control message. 64-bit numbers are `bigint`, fields of type bytes are views of `body`.
 *
 * @param maxFields fields that it may have, those of nested messages included; any number when not given
 * @throws ProtocolError `BODY_UNREADABLE` when the bytes are not such a message, `TOO_MANY_FIELDS`
 */
export function decodeControl<S extends DescMessage>(
  schema: S,
  body: Uint8Array,
  maxFields: number = Number.POSITIVE_INFINITY,
): MessageShape<S> {
  try {
    // A field takes two bytes at least, an element of a packed list one.
    const isCounted = body.length > maxFields;
    if (!isCounted || !hasMoreFields(schema, body, maxFields)) return fromBinary(schema, body);
  } catch (cause) {
    const reason = errorText(cause);
    throw new ProtocolError("BODY_UNREADABLE", `expected a ${schema.name} message of ${body.length} bytes: ${reason}`, {
      cause,
    });
  }
  const text = `a ${schema.name} message of ${body.length} bytes has more than ${maxFields} fields`;
  throw new ProtocolError("TOO_MANY_FIELDS", text);
}

/** Peer data and the like arrive as objects with number keys; this is the map that headers use. */
export function byteMap(fields: { readonly [key: number]: Uint8Array }): Map<number, Buffer> {
  return new Map(
    Object.entries(fields).map(([key, value]) => [
      Number(key),
      Buffer.from(value.buffer, value.byteOffset, value.byteLength),
    ]),
  );
}

/** Messages whose schema is not called as they are. */
const NAMED_OTHERWISE: readonly (readonly [number, DescMessage])[] = [
  [ControlType.Metrics, metricsPb.MetricsMessageSchema],
  [EdgeCtrlType.HealthEvent, edgeCtrlPb.HealthEventRequestSchema],
  [EdgeCtrlType.DataStateChangeSet, edgeCtrlPb.DataState_ChangeSetSchema],
  [EdgeCtrlType.ValidateDataStateRequest, edgeCtrlPb.RouterDataModelValidateRequestSchema],
  [EdgeCtrlType.ValidateDataStateResponse, edgeCtrlPb.RouterDataModelValidateResponseSchema],
  [EdgeCtrlType.SubscribeToDataModel, edgeCtrlPb.SubscribeToDataModelRequestSchema],
];

const SCHEMAS: ReadonlyMap<number, DescMessage> = new Map([
  ...schemasByName(ControlType, ctrlPb),
  ...schemasByName(EdgeCtrlType, edgeCtrlPb),
  ...NAMED_OTHERWISE,
]);

/** The body of a control message as protobuf JSON. Undefined when the content type has no protobuf body, or the bytes do not decode. */
export function controlJson(contentType: number, body: Uint8Array): JsonValue | undefined {
  const schema = SCHEMAS.get(contentType);
  if (schema === undefined) return undefined;
  try {
    return toJson(schema, fromBinary(schema, body));
  } catch {
    // The recipient reports the fault; a reader of traces wants to see the rest.
    return undefined;
  }
}

function schemasByName(types: Readonly<Record<string, number>>, pb: Readonly<Record<string, unknown>>) {
  return Object.entries(types).flatMap(([name, type]): [number, DescMessage][] => {
    const schema = pb[`${name}Schema`] as DescMessage | undefined;
    return schema?.kind === "message" ? [[type, schema]] : [];
  });
}
