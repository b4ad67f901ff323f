/** NT status codes, and the errors of the SMB client. */

/** The status codes that the client and the driver handle (MS-ERREF §2.3). */
export const status = {
  success: 0,
  pending: 0x00000103,
  bufferOverflow: 0x80000005,
  noMoreFiles: 0x80000006,
  stoppedOnSymlink: 0x8000002d,
  invalidParameter: 0xc000000d,
  noSuchFile: 0xc000000f,
  invalidDeviceRequest: 0xc0000010,
  endOfFile: 0xc0000011,
  moreProcessingRequired: 0xc0000016,
  accessDenied: 0xc0000022,
  objectNameInvalid: 0xc0000033,
  objectNameNotFound: 0xc0000034,
  objectNameCollision: 0xc0000035,
  objectPathInvalid: 0xc0000039,
  objectPathNotFound: 0xc000003a,
  objectPathSyntaxBad: 0xc000003b,
  sharingViolation: 0xc0000043,
  quotaExceeded: 0xc0000044,
  fileLockConflict: 0xc0000054,
  deletePending: 0xc0000056,
  privilegeNotHeld: 0xc0000061,
  noSuchUser: 0xc0000064,
  wrongPassword: 0xc000006a,
  logonFailure: 0xc000006d,
  accountRestriction: 0xc000006e,
  invalidLogonHours: 0xc000006f,
  invalidWorkstation: 0xc0000070,
  passwordExpired: 0xc0000071,
  accountDisabled: 0xc0000072,
  diskFull: 0xc000007f,
  insufficientResources: 0xc000009a,
  mediaWriteProtected: 0xc00000a2,
  ioTimeout: 0xc00000b5,
  fileIsADirectory: 0xc00000ba,
  notSupported: 0xc00000bb,
  networkNameDeleted: 0xc00000c9,
  badNetworkName: 0xc00000cc,
  requestNotAccepted: 0xc00000d0,
  unexpectedNetworkError: 0xc00000c4,
  directoryNotEmpty: 0xc0000101,
  notADirectory: 0xc0000103,
  nameTooLong: 0xc0000106,
  cancelled: 0xc0000120,
  cannotDelete: 0xc0000121,
  fileDeleted: 0xc0000123,
  fileClosed: 0xc0000128,
  logonTypeNotGranted: 0xc000015b,
  trustedRelationshipFailure: 0xc000018d,
  accountExpired: 0xc0000193,
  pathNotCovered: 0xc0000257,
  dfsUnavailable: 0xc000026d,
  reparseTagNotHandled: 0xc0000279,
  userSessionDeleted: 0xc0000203,
  insuffServerResources: 0xc0000205,
  notFound: 0xc0000225,
  passwordMustChange: 0xc0000224,
  accountLockedOut: 0xc0000234,
  networkSessionExpired: 0xc000035c,
  fileTooLarge: 0xc0000904,
} as const

const names = new Map<number, string>(Object.entries(status).map(([name, code]) => [code, name]))

/** For error messages: `0xC0000022 (access denied)`, or only the number if the code is unknown. */
export function statusName(code: number): string {
  const hexadecimal = `0x${code.toString(16).toUpperCase().padStart(8, '0')}`
  const words = names.get(code)?.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
  return words === undefined ? hexadecimal : `${hexadecimal} (${words})`
}

/** The server rejected a request with an NT status. */
export class StatusError extends Error {
  override readonly name = 'StatusError'

  constructor(readonly status: number) {
    super(`the server returned ${statusName(status)}`)
  }
}

/**
 * The connection is unusable. The server may have processed the request, except if `kind` is `ended`: then it has
 * processed neither the request nor any other request of the same compound.
 */
export class ConnectionError extends Error {
  override readonly name: string = 'ConnectionError'

  constructor(
    readonly kind: 'refused' | 'lost' | 'timeout' | 'closed' | 'ended' | 'protocol',
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

/** The server violates the protocol, or its messages were modified in transit. */
export class ProtocolError extends ConnectionError {
  override readonly name = 'ProtocolError'

  constructor(message: string, options?: ErrorOptions) {
    super('protocol', message, options)
  }
}

/**
 * Awaits a request that follows a completed change of the same operation. An ended session rejects with `lost` instead
 * of `ended`, because a repetition of the operation would repeat the change.
 */
export async function afterChange<T>(request: Promise<T>): Promise<T> {
  try {
    return await request
  } catch (error) {
    if (!(error instanceof ConnectionError) || error.kind !== 'ended') throw error
    throw new ConnectionError('lost', error.message, { cause: error })
  }
}
