/** Apache with mod_dav. */
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../test/servers/free-port.js'
import { encodedPath, versionLine, type PeerType } from './peer.js'
import { accepts, startProcess } from './process.js'

const modules = '/usr/lib/apache2/modules'

const config = (folder: string, files: string, port: number, isRoot: boolean): string => `
ServerRoot ${folder}
ServerName 127.0.0.1
Listen 127.0.0.1:${port}
PidFile ${folder}/pid
DefaultRuntimeDir ${folder}
ErrorLog ${folder}/error.log
LoadModule mpm_event_module ${modules}/mod_mpm_event.so
LoadModule authz_core_module ${modules}/mod_authz_core.so
LoadModule dav_module ${modules}/mod_dav.so
LoadModule dav_fs_module ${modules}/mod_dav_fs.so
${isRoot ? 'User www-data\nGroup www-data' : ''}
KeepAlive On
MaxKeepAliveRequests 0
EnableSendfile On
DavLockDB ${folder}/locks/db
DocumentRoot ${files}
<Directory ${files}>
  Require all granted
  Dav On
  DavMinTimeout 600
</Directory>
`

export const apache: PeerType = {
  name: 'apache',
  version: () => versionLine('apache2', ['-v']),
  async start(ground) {
    const folder = join(ground.folder, 'apache')
    await mkdir(folder)
    // As root, Apache's child processes drop their privileges, but still write the lock table.
    await mkdir(join(folder, 'locks'))
    await chmod(join(folder, 'locks'), 0o777)
    const port = await freePort()
    const file = join(folder, 'apache.conf')
    await writeFile(file, config(folder, ground.files, port, process.getuid?.() === 0))
    const running = await startProcess('apache2', ['-f', file, '-DFOREGROUND'], { isReady: () => accepts(port) })
    const url = `http://127.0.0.1:${port}/`
    return {
      name: 'apache',
      download: async (path) => url + encodedPath(path),
      dav: { url, headers: {} },
      processes: [running],
    }
  },
}
