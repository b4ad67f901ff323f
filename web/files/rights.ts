/** What the user may do in a folder. */
import { Right } from '../api/schema.ts'
import type { Me } from '../session/me.ts'
import { may } from '../session/permissions.ts'
import type { FolderPage } from '../entries/folder.ts'

export interface Rights {
  /** Upload files and create folders. */
  readonly write: boolean
  /** Have the server download files from URLs. */
  readonly fromUrls: boolean
  readonly rename: boolean
  readonly move: boolean
  readonly copy: boolean
  readonly remove: boolean
  /** Show what is there to people without an account. */
  readonly share: boolean
}

/**
 * The rights by permissions, folder rules and grants. None while the folder is not loaded. `me`: absent for visitors.
 */
export function rightsIn(me: Me | undefined, folder: FolderPage | undefined): Rights {
  const mayDo = (right: FolderPage['rights'][number]) => folder?.rights.includes(right) === true
  return {
    write: mayDo(Right.write),
    // A rule or a grant may still refuse it: the listing does not say so for users without the permission to write.
    fromUrls: folder !== undefined && me !== undefined && may(me, 'offlineDownload'),
    rename: mayDo(Right.rename),
    move: mayDo(Right.move),
    copy: mayDo(Right.copy),
    remove: mayDo(Right.remove),
    share: mayDo(Right.share),
  }
}
