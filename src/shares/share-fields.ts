/** The fields of a share, and their limits. */
import { randomInt } from 'node:crypto'
import { GatewayError } from '../base/errors.js'
import { nameOf, root, type Path } from '../base/path.js'
import type { ShareMode } from '../base/rights.js'
import { networksOf } from '../net/addresses.js'
import type { ShareRoot, ShareRow } from '../database/tables/shares.js'

/** Maximum roots of a share: every request may look at each of them. */
export const maxRoots = 100
/** Maximum shares of one creator; and in all, because every process has them in memory. */
export const maxSharesOfUser = 1000
export const maxShares = 20_000

/** Maximum lengths in characters. */
const maxLengths = { id: 64, code: 255, remark: 4096, readme: 65_536, header: 65_536 } as const
const maxNetworks = 100
const randomLength = 8
const idCharacters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

/** The values of a new share for fields that are not given. */
export const newShare: Omit<ShareRow, 'id' | 'creatorId' | 'created'> = {
  mode: 'read',
  code: '',
  expires: undefined,
  maxVisits: 0,
  disabled: false,
  remark: '',
  readme: '',
  header: '',
  orderBy: '',
  orderDirection: '',
  extractFolder: '',
  allowFrom: [],
  webdav: false,
  uploadMaxBytes: 0,
  uploadMaxFiles: 0,
}

/** Letters, digits, `_`, `-` and Han characters, as the family of this API has them. */
const idPattern = /^[\w\p{Script=Han}-]+$/u

export function randomShareId(isTaken: (id: string) => boolean): string {
  for (;;) {
    const id = Array.from({ length: randomLength }, () => idCharacters.charAt(randomInt(idCharacters.length))).join('')
    if (!isTaken(id)) return id
  }
}

/** Throws `invalid` for an id that no share can have. */
export function checkShareId(id: string): string {
  if (Array.from(id).length > maxLengths.id) throw invalid('share id must be at most 64 characters')
  if (!idPattern.test(id)) {
    throw invalid('share id can only contain letters, numbers, underscores, hyphens, and CJK characters')
  }
  return id
}

/** Throws `invalid` if there can be no more shares, or none of one creator, who has `own` of them. */
export function checkShareCount(all: number, own: number): void {
  if (all >= maxShares || own >= maxSharesOfUser) {
    throw invalid(`there can be at most ${maxShares} shares, and ${maxSharesOfUser} of one user`)
  }
}

/** Throws `invalid` for fields that a share cannot have. */
export function checkShareFields(fields: Partial<ShareRow>): void {
  const { expires, maxVisits, uploadMaxBytes, uploadMaxFiles, allowFrom = [] } = fields
  for (const field of ['code', 'remark', 'readme', 'header'] as const) {
    const text = fields[field] ?? ''
    if (text.length > maxLengths[field]) throw invalid(`the ${field} has ${maxLengths[field]} characters at most`)
    if (!text.isWellFormed() || text.includes('\0')) throw invalid(`the ${field} must be valid Unicode without NUL`)
  }
  for (const number of [maxVisits, uploadMaxBytes, uploadMaxFiles]) {
    if (number !== undefined && !Number.isSafeInteger(number)) throw invalid('a limit of a share is an integer')
  }
  if ((uploadMaxBytes ?? 0) < 0 || (uploadMaxFiles ?? 0) < 0) throw invalid('a limit of uploads is 0 or more')
  if (expires !== undefined && Number.isNaN(expires.getTime())) throw invalid('the end of a share is not a time')
  if (allowFrom.length > maxNetworks) throw invalid(`a share has ${maxNetworks} networks at most`)
  networksOf(allowFrom)
}

/** The fields of which some have no effect in some modes. */
type ModeFields = Pick<ShareRow, 'mode' | 'webdav' | 'uploadMaxBytes' | 'uploadMaxFiles'>

/** Throws `invalid` if one of them has no effect in this mode. */
export function checkModeFields({ mode, webdav, uploadMaxBytes, uploadMaxFiles }: ModeFields): void {
  if (mode === 'upload' && webdav) throw invalid('a share to upload to is no drive: its visitors see nothing')
  if (mode === 'read' && (uploadMaxBytes > 0 || uploadMaxFiles > 0)) {
    throw invalid('a share to read from has no limit of uploads: its visitors upload nothing')
  }
}

/** Throws as `checkModeFields`, if a change of a share is about one of them. */
export function checkModeChange(before: ModeFields, changes: Partial<ModeFields>): void {
  const after: ModeFields = {
    mode: changes.mode ?? before.mode,
    webdav: changes.webdav ?? before.webdav,
    uploadMaxBytes: changes.uploadMaxBytes ?? before.uploadMaxBytes,
    uploadMaxFiles: changes.uploadMaxFiles ?? before.uploadMaxFiles,
  }
  const isChanged = (Object.keys(after) as (keyof ModeFields)[]).some((field) => after[field] !== before[field])
  // Values that an older version has stored must not prevent changes of other fields.
  if (isChanged) checkModeFields(after)
}

/**
 * Throws `invalid` if these cannot be the files and folders of one share: several appear in one folder by their names.
 */
export function checkRoots(paths: readonly Path[], mode: ShareMode): void {
  if (paths.length === 0) throw invalid('must add at least 1 object')
  if (mode === 'upload' && paths.length > 1) throw invalid('a share to upload to is one folder')
  if (paths.length > maxRoots) throw invalid(`a share has ${maxRoots} files and folders at most`)
  if (paths.length > 1 && paths.includes(root)) throw invalid('the root folder is shared alone')
  const names = new Set(paths.map(nameOf))
  if (names.size < paths.length) throw invalid('two files or folders of a share cannot have the same name')
}

/** The paths of a share for which an update asks whether the creator may share them. */
interface PathsToJudge {
  /** Paths that must exist. */
  readonly added: readonly Path[]
  /** Paths that the share has already, if another creator or mode is asked. They may be missing. */
  readonly kept: readonly Path[]
  /** Paths that stay removed, whatever exists there now. They are not checked. */
  readonly removed: readonly Path[]
}

/** `paths`: all that the share is to have. */
export function pathsToJudge(
  before: Pick<ShareRow, 'creatorId' | 'mode'> & { readonly roots: readonly ShareRoot[] },
  { creatorId = before.creatorId, mode = before.mode }: Partial<Pick<ShareRow, 'creatorId' | 'mode'>>,
  paths: readonly Path[],
): PathsToJudge {
  const wasRemoved = new Map(before.roots.map(({ path, removed }) => [path, removed]))
  const isOther = creatorId !== before.creatorId || mode !== before.mode
  return {
    added: paths.filter((path) => !wasRemoved.has(path)),
    kept: paths.filter((path) => isOther && wasRemoved.get(path) === false),
    removed: paths.filter((path) => wasRemoved.get(path) === true),
  }
}

function invalid(reason: string): GatewayError {
  return new GatewayError('invalid', { reason })
}
