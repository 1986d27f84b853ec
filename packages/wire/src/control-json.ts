import { type DescMessage, fromBinary, type JsonValue, toJson } from "@bufbuild/protobuf";
import { ControlType, EdgeCtrlType } from "./catalogue/control.ts";
import * as ctrlPb from "./generated/ctrl_pb.ts";
import * as edgeCtrlPb from "./generated/edge_ctrl_pb.ts";
import * as metricsPb from "./generated/metrics_pb.ts";

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

/** The body of a control message as protobuf JSON, for people to read. Undefined when the content type has no protobuf body, or the bytes do not decode. */
export function controlJson(contentType: number, body: Uint8Array): JsonValue | undefined {
  const schema = SCHEMAS.get(contentType);
  if (schema === undefined) return undefined;
  try {
    return toJson(schema, fromBinary(schema, body));
  } catch {
    // Whoever the message is for complains; a reader of traces wants to see the rest.
    return undefined;
  }
}

function schemasByName(types: Readonly<Record<string, number>>, pb: Readonly<Record<string, unknown>>) {
  return Object.entries(types).flatMap(([name, type]): [number, DescMessage][] => {
    const schema = pb[`${name}Schema`] as DescMessage | undefined;
    return schema?.kind === "message" ? [[type, schema]] : [];
  });
}
