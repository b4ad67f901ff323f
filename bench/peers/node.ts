/** A minimal Node server that only makes the file calls: the upper bound of what Tidegate can reach on this runtime. */
import { fileURLToPath } from 'node:url'
import { encodedPath, type PeerType } from './peer.js'
import { startProcess } from './process.js'

const program = fileURLToPath(new URL('node-server.js', import.meta.url))

export const node: PeerType = {
  name: 'node',
  version: async () => `Node ${process.version}, a server of file calls alone`,
  async start({ files }) {
    let url = ''
    const running = await startProcess(process.execPath, [program, files], {
      isReady: (output) => {
        url = output.trim()
        return output.endsWith('\n')
      },
    })
    return {
      name: 'node',
      download: async (file) => url + encodedPath(file),
      dav: { url, headers: {} },
      ping: `${url}?ping`,
      processes: [running],
    }
  },
}
