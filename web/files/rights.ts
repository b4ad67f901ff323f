/** What the user may do in a folder. */
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
}

/** The rights of the user and those by folder rules. None while the folder is not loaded. */
export function rightsIn(me: Me, folder: FolderPage | undefined): Rights {
  const mayChange = folder?.write === true
  return {
    write: mayChange && (may(me, 'write') || folder.write_content_bypass),
    // A rule may still refuse it: the listing does not say so for users without the permission to write.
    fromUrls: folder !== undefined && may(me, 'offlineDownload'),
    rename: mayChange && may(me, 'rename'),
    move: mayChange && may(me, 'move'),
    copy: folder !== undefined && may(me, 'copy'),
    remove: mayChange && may(me, 'remove'),
  }
}
