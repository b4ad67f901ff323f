/** `rclone serve`, one process for each protocol. */
import { join } from 'node:path'
import { freePort } from '../../test/servers/free-port.js'
import { rcloneProgram } from '../programs.js'
import { basicHeaders, rcloneOptions } from './basic-credentials.js'
import { encodedPath, versionLine, type PeerType } from './peer.js'
import { accepts, startProcess, type RunningProcess } from './process.js'

export const rclone: PeerType = {
  name: 'rclone',
  version: () => versionLine(rcloneProgram, ['version']),
  async start({ files, folder, clientKey }) {
    const processes: RunningProcess[] = []
    const serve = async (kind: string, ...options: readonly string[]): Promise<number> => {
      const port = await freePort()
      const words = ['serve', kind, files, '--addr', `127.0.0.1:${port}`, '--config', join(folder, 'rclone.conf')]
      processes.push(await startProcess(rcloneProgram, [...words, ...options], { isReady: () => accepts(port) }))
      return port
    }
    try {
      const http = await serve('http')
      const dav = await serve('webdav', ...rcloneOptions)
      const sftp = await serve('sftp', '--user', 'bench', '--authorized-keys', `${clientKey}.pub`)
      return {
        name: 'rclone',
        download: async (file) => `http://127.0.0.1:${http}/${encodedPath(file)}`,
        listing: (folder) => ({ url: `http://127.0.0.1:${http}/${encodedPath(folder)}/`, headers: {} }),
        dav: { url: `http://127.0.0.1:${dav}/`, headers: basicHeaders },
        sftp: { port: sftp, username: 'bench' },
        processes,
      }
    } catch (error) {
      for (const each of processes) await each.stop()
      throw error
    }
  },
}
