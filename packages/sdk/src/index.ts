export { type CaBundle, fetchCaBundle, readCaBundle } from "./ca-bundle.ts";
export { type EnrollmentBody, postEnrollment } from "./enroll-request.ts";
export { type EnrollmentToken, issuerUrl, verifyEnrollmentToken } from "./enrollment-token.ts";
export { EnrollmentError } from "./errors.ts";
export { type EnrollmentTrust, enrollmentRequest, servedLeaf } from "./pinned-request.ts";
