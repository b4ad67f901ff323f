/** Checks what every imported share must have. */
import { permissionBits } from '../../accounts/principal.js'
import { randomPassword } from '../../accounts/passwords.js'
import { GatewayError } from '../../base/errors.js'
import { cleanPath, nameOf, root, type Path } from '../../base/path.js'
import type { ImportedShare, ImportedUser } from '../../database/installation.js'
import { checkShareCount, checkRoots, checkShareFields, checkShareId, newShare } from '../../shares/share-fields.js'

/** The setting by which links of File Browser lead to the shares of the same ids. */
export const oldLinksSetting = 'filebrowser_share_links'

/** A code is compared at every request of a visitor, and its creator reads it. */
export const hashedCode =
  'only a hash of its code is stored there, so it has a new code: send that to its visitors, or set the old one, and enable it'

/** A share before it is checked. What is absent is as in a new share. */
export interface ShareDraft extends Partial<Omit<ImportedShare, 'creatorId' | 'roots' | 'created'>> {
  readonly id: string
  /** The creator of the share; undefined if the user is not taken. */
  readonly creator: ImportedUser | undefined
  /** Paths of the whole tree. */
  readonly paths: readonly string[]
}

/**
 * The share, and what is not as it was. `taken`: the shares so far, whose ids it cannot have. `faults`: why the share
 * cannot be taken as it is. It is disabled then, with a new code if it has none that is known, so that whoever enables
 * it opens nothing to those who know its link. Throws `invalid` for what no share can be, and for too many shares.
 */
export function checkedShare(
  { creator, paths, ...draft }: ShareDraft,
  taken: readonly ImportedShare[],
  faults: readonly string[],
): { readonly share: ImportedShare; readonly changes: readonly string[] } {
  checkShareId(draft.id)
  if (taken.some(({ id }) => id === draft.id)) throw invalid('another share has this id')
  if (creator === undefined) throw invalid('its creator is not taken')
  if (creator.role === 'guest') throw invalid('the guest cannot share anything')
  checkShareCount(taken, creator.id)
  const all = [...new Set(paths.map(cleanPath))]
  const roots = shownRoots(all)
  const share: ImportedShare = {
    ...newShare,
    visits: 0,
    ...draft,
    ...(faults.length > 0 && { disabled: true, code: draft.code || randomPassword() }),
    ...{ creatorId: creator.id, roots, created: new Date() },
  }
  checkRoots(roots, share.mode)
  checkShareFields(share)
  const mayShare = (creator.permission & permissionBits.share) !== 0
  const changes = [
    ...(faults.length > 0 ? [`disabled: ${faults.join(', and ')}`] : []),
    ...(all.length === roots.length ? [] : ['without what visitors could not open there either']),
    ...(mayShare ? [] : ['its creator may not share anything, so that nobody can open it']),
  ]
  return { share, changes }
}

/** The roots that are shown: the first of several entries with one name, and the root folder only alone. */
function shownRoots(paths: readonly Path[]): readonly Path[] {
  const names = new Set<string>()
  return paths.filter((path) => {
    const isShown = !names.has(nameOf(path)) && (paths.length === 1 || path !== root)
    names.add(nameOf(path))
    return isShown
  })
}

function invalid(reason: string): GatewayError {
  return new GatewayError('invalid', { reason })
}
