/** Maps NT status codes and connection errors to `GatewayError`s. */
import { GatewayError, toGatewayError, type ErrorCode } from '../../src/base/errors.js'
import { unreachable } from '../lib/network-errors.js'
import { ConnectionError, StatusError, status } from './client/errors.js'

type Meaning = readonly [code: ErrorCode, reason?: string]

// Not `unauthenticated`, which concerns the client of the gateway.
const wrongCredentials: Meaning = ['denied', 'the server rejects the user name or the password']
const accountRestricted: Meaning = ['denied', 'the server does not allow this account to sign in']
const handleClosed: Meaning = ['unavailable', 'the server has closed the file']
const otherServer: Meaning = ['denied', 'the path leads through a DFS link, to a share of another server']
const overloaded: Meaning = ['unavailable', 'the server is short of resources']

const meanings: ReadonlyMap<number, Meaning> = new Map([
  [status.noSuchFile, ['not_found']],
  [status.objectNameNotFound, ['not_found']],
  [status.objectPathNotFound, ['not_found']],
  [status.notFound, ['not_found']],
  [status.fileDeleted, ['not_found']],
  [status.deletePending, ['busy', 'the file is being removed']],
  [status.objectNameCollision, ['exists']],
  [status.objectNameInvalid, ['invalid', 'the server does not accept this name']],
  [status.objectPathInvalid, ['invalid', 'the server does not accept this name']],
  [status.objectPathSyntaxBad, ['invalid', 'the server does not accept this name']],
  [status.nameTooLong, ['invalid', 'the path is too long']],
  [status.accessDenied, ['denied', 'access denied by the server']],
  [status.privilegeNotHeld, ['denied', 'access denied by the server']],
  [status.cannotDelete, ['denied', 'the file is read-only']],
  [status.mediaWriteProtected, ['denied', 'the share is read-only']],
  [status.stoppedOnSymlink, ['denied', 'the path leads through a symlink']],
  [status.pathNotCovered, otherServer],
  [status.dfsUnavailable, otherServer],
  [status.reparseTagNotHandled, ['denied', 'the path leads through a link that the server does not follow']],
  [status.fileIsADirectory, ['is_folder']],
  [status.notADirectory, ['not_folder']],
  [status.directoryNotEmpty, ['not_empty']],
  [status.sharingViolation, ['busy', 'the file is open in another program']],
  [status.fileLockConflict, ['busy', 'the file is locked by another program']],
  [status.diskFull, ['no_space']],
  [status.quotaExceeded, ['no_space']],
  [status.fileTooLarge, ['too_large']],
  [status.notSupported, ['unsupported']],
  [status.invalidDeviceRequest, ['unsupported']],
  [status.ioTimeout, ['timeout']],
  [status.cancelled, ['aborted']],
  [status.fileClosed, handleClosed],
  [status.insufficientResources, overloaded],
  [status.insuffServerResources, overloaded],
  [status.requestNotAccepted, overloaded],
  [status.unexpectedNetworkError, overloaded],
  [status.badNetworkName, ['unavailable', 'the server has no share of this name']],
  [status.logonFailure, wrongCredentials],
  [status.wrongPassword, wrongCredentials],
  [status.noSuchUser, wrongCredentials],
  [status.accountRestriction, accountRestricted],
  [status.invalidLogonHours, accountRestricted],
  [status.invalidWorkstation, accountRestricted],
  [status.logonTypeNotGranted, accountRestricted],
  [status.trustedRelationshipFailure, accountRestricted],
  [status.accountDisabled, ['denied', 'the account is disabled']],
  [status.accountExpired, ['denied', 'the account has expired']],
  [status.accountLockedOut, ['denied', 'the account is locked']],
  [status.passwordExpired, ['denied', 'the password has expired']],
  [status.passwordMustChange, ['denied', 'the password must be changed first']],
])

const connectionMeanings: Readonly<Record<Exclude<ConnectionError['kind'], 'refused'>, Meaning>> = {
  lost: ['unavailable', 'the connection to the server was lost'],
  ended: ['unavailable', 'the server has ended the session'],
  timeout: ['timeout', 'the server does not respond'],
  closed: ['aborted', 'the storage was stopped'],
  protocol: ['unavailable'],
}

/** Converts any thrown value to a GatewayError, with the original as `cause`. */
export function translateError(error: unknown): GatewayError {
  if (error instanceof StatusError) {
    const [code, reason] = meanings.get(error.status) ?? ['unavailable', error.message]
    return new GatewayError(code, { reason, cause: error })
  }
  if (error instanceof ConnectionError) {
    if (error.kind === 'refused') {
      const { code } = (error.cause ?? {}) as NodeJS.ErrnoException
      return new GatewayError('unavailable', { reason: unreachable('server', code), cause: error })
    }
    const [code, reason = error.message] = connectionMeanings[error.kind]
    return new GatewayError(code, { reason, cause: error })
  }
  const isCutBody = (error as NodeJS.ErrnoException).code === 'ERR_STREAM_PREMATURE_CLOSE'
  return isCutBody ? new GatewayError('aborted', { cause: error }) : toGatewayError(error)
}

/** Whether `error` is a StatusError with one of these NT status codes. */
export function isStatus(error: unknown, ...codes: readonly number[]): error is StatusError {
  return error instanceof StatusError && codes.includes(error.status)
}

/** Whether the error means that nothing exists at the path: the name or a parent is missing, or a parent is a file. */
export function isMissing(error: unknown): boolean {
  const { noSuchFile, objectNameNotFound, objectPathNotFound, notFound, fileDeleted, notADirectory } = status
  return isStatus(error, noSuchFile, objectNameNotFound, objectPathNotFound, notFound, fileDeleted, notADirectory)
}
