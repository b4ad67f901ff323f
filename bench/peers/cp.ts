/** The system's `cp`: copies trees and serves nothing. */
import { versionLine, type PeerType } from './peer.js'

export const cp: PeerType = {
  name: 'cp',
  version: () => versionLine('cp', ['--version']),
  start: async () => ({ name: 'cp', processes: [] }),
}
