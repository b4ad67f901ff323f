/** The list of all clients whose requests are replayed. */
import { davfs2 } from './davfs2.js'
import { finder, finderWithoutSideFiles } from './finder.js'
import { gnome } from './gnome.js'
import { joplin } from './joplin.js'
import { kde } from './kde.js'
import { keePass } from './keepass.js'
import { libreOffice } from './libreoffice.js'
import { office, saveByRename } from './office.js'
import { ownCloud } from './owncloud.js'
import { players } from './players.js'
import { rclone } from './rclone.js'
import type { Trace } from './trace.js'
import { windows } from './windows.js'
import { zotero } from './zotero.js'

export const traces: readonly Trace[] = [
  ...[windows, finder, finderWithoutSideFiles, gnome, kde, davfs2],
  ...[office, saveByRename, libreOffice],
  ...[keePass, joplin, zotero, ownCloud, rclone, players],
]
