/** The shares of an import, and what every one of them must have. */
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

/** The shares of an import, each of which is checked against those before it. */
export class ImportedShares {
  readonly all: ImportedShare[] = []
  readonly #ids = new Set<string>()
  /** How many each creator has. */
  readonly #counts = new Map<number, number>()

  /**
   * Adds the share, and returns what is not as it was. `faults`: why it cannot be taken as it is. It is disabled then,
   * with a new code if it has none that is known, so that whoever enables it opens nothing to those who know its link.
   * Throws `invalid` for what no share can be, for the id of another one, and for too many shares.
   */
  add({ creator, paths, ...draft }: ShareDraft, faults: readonly string[]): readonly string[] {
    checkShareId(draft.id)
    if (this.#ids.has(draft.id)) throw invalid('another share has this id')
    if (creator === undefined) throw invalid('its creator is not taken')
    if (creator.role === 'guest') throw invalid('the guest cannot share anything')
    const count = this.#counts.get(creator.id) ?? 0
    checkShareCount(this.all.length, count)
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
    this.all.push(share)
    this.#ids.add(share.id)
    this.#counts.set(creator.id, count + 1)
    const mayShare = (creator.permission & permissionBits.share) !== 0
    return [
      ...(faults.length > 0 ? [`disabled: ${faults.join(', and ')}`] : []),
      ...(all.length === roots.length ? [] : ['without what visitors could not open there either']),
      ...(mayShare ? [] : ['its creator may not share anything, so that nobody can open it']),
    ]
  }
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
