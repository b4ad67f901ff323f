/** `cp` of the system: it serves nothing, and copies trees. */
import { versionLine, type PeerType } from './peer.js'

export const cp: PeerType = {
  name: 'cp',
  version: () => versionLine('cp', ['--version']),
  start: async () => ({ name: 'cp', processes: [] }),
}
