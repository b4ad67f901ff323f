/** What the server's statuses, and a lost connection, mean to the gateway. */
import { GatewayError, toGatewayError, type ErrorCode } from '../../src/errors.js'
import { ConnectionError, StatusError } from './client/errors.js'
import { status } from './client/statuses.js'

type Meaning = readonly [code: ErrorCode, reason?: string]

const signIn: Meaning = ['unauthenticated', 'the server refuses the user name or the password']
const closed: Meaning = ['unauthenticated', 'the server does not let this account in']
const gone: Meaning = ['unavailable', 'the server has closed the file']
const down: Meaning = ['unavailable', 'the server is short of resources']

const meanings: ReadonlyMap<number, Meaning> = new Map([
  [status.noSuchFile, ['not_found']],
  [status.objectNameNotFound, ['not_found']],
  [status.objectPathNotFound, ['not_found']],
  [status.notFound, ['not_found']],
  [status.fileDeleted, ['not_found']],
  [status.deletePending, ['busy', 'it is being removed']],
  [status.objectNameCollision, ['exists']],
  [status.objectNameInvalid, ['invalid', 'the server refuses this name']],
  [status.objectPathInvalid, ['invalid', 'the server refuses this name']],
  [status.objectPathSyntaxBad, ['invalid', 'the server refuses this name']],
  [status.nameTooLong, ['invalid', 'the path is too long']],
  [status.accessDenied, ['denied', 'the server denies it']],
  [status.privilegeNotHeld, ['denied', 'the server denies it']],
  [status.cannotDelete, ['denied', 'it is read-only']],
  [status.mediaWriteProtected, ['denied', 'the share is read-only']],
  [status.stoppedOnSymlink, ['denied', 'it is a link that leads elsewhere']],
  [status.fileIsADirectory, ['is_dir']],
  [status.notADirectory, ['not_dir']],
  [status.directoryNotEmpty, ['not_empty']],
  [status.sharingViolation, ['busy', 'a program has it open']],
  [status.fileLockConflict, ['busy', 'a program has locked it']],
  [status.diskFull, ['no_space']],
  [status.quotaExceeded, ['no_space']],
  [status.fileTooLarge, ['too_large']],
  [status.notSupported, ['unsupported']],
  [status.invalidDeviceRequest, ['unsupported']],
  [status.ioTimeout, ['timeout']],
  [status.cancelled, ['aborted']],
  [status.fileClosed, gone],
  [status.insufficientResources, down],
  [status.insuffServerResources, down],
  [status.requestNotAccepted, down],
  [status.unexpectedNetworkError, down],
  [status.badNetworkName, ['unavailable', 'the server has no share of this name']],
  [status.logonFailure, signIn],
  [status.wrongPassword, signIn],
  [status.noSuchUser, signIn],
  [status.accountRestriction, closed],
  [status.invalidLogonHours, closed],
  [status.invalidWorkstation, closed],
  [status.logonTypeNotGranted, closed],
  [status.trustedRelationshipFailure, closed],
  [status.accountDisabled, ['unauthenticated', 'the account is disabled']],
  [status.accountExpired, ['unauthenticated', 'the account has expired']],
  [status.accountLockedOut, ['unauthenticated', 'the account is locked']],
  [status.passwordExpired, ['unauthenticated', 'the password has expired']],
  [status.passwordMustChange, ['unauthenticated', 'the password has to be changed first']],
])

const connectionMeanings: Readonly<Record<ConnectionError['kind'], Meaning>> = {
  lost: ['unavailable', 'the connection to the server was lost'],
  refused: ['unavailable', 'the server cannot be reached'],
  ended: ['unavailable', 'the server has ended the session'],
  timeout: ['timeout', 'the server does not answer'],
  closed: ['aborted', 'the storage was stopped'],
  protocol: ['unavailable'],
}

/** Any thrown value as a GatewayError, with the original as `cause`. */
export function translated(error: unknown): GatewayError {
  if (error instanceof StatusError) {
    const [code, reason] = meanings.get(error.status) ?? ['unavailable', error.message]
    return new GatewayError(code, { reason, cause: error })
  }
  if (error instanceof ConnectionError) {
    const [code, reason = error.message] = connectionMeanings[error.kind]
    return new GatewayError(code, { reason, cause: error })
  }
  const isCutBody = (error as NodeJS.ErrnoException).code === 'ERR_STREAM_PREMATURE_CLOSE'
  return isCutBody ? new GatewayError('aborted', { cause: error }) : toGatewayError(error)
}

/** Whether the server refused with one of these. */
export function isStatus(error: unknown, ...codes: readonly number[]): error is StatusError {
  return error instanceof StatusError && codes.includes(error.status)
}

/** Nothing has this path: the name is missing, or a folder on the way, or that is a file. */
export function isMissing(error: unknown): boolean {
  const { noSuchFile, objectNameNotFound, objectPathNotFound, notFound, fileDeleted, notADirectory } = status
  return isStatus(error, noSuchFile, objectNameNotFound, objectPathNotFound, notFound, fileDeleted, notADirectory)
}
