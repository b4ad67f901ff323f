/** Apache with mod_dav. */
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../test/servers/free-port.js'
import { basicHeaders, passwordLine } from './basic-credentials.js'
import { encodedPath, versionLine, type HttpPorts, type PeerType } from './peer.js'
import { accepts, startProcess } from './process.js'

const modules = '/usr/lib/apache2/modules'

const config = (folder: string, files: string, ports: HttpPorts, isRoot: boolean): string => `
ServerRoot ${folder}
ServerName 127.0.0.1
Listen 127.0.0.1:${ports.http}
Listen 127.0.0.1:${ports.dav}
PidFile ${folder}/pid
DefaultRuntimeDir ${folder}
ErrorLog ${folder}/error.log
LoadModule mpm_event_module ${modules}/mod_mpm_event.so
LoadModule auth_basic_module ${modules}/mod_auth_basic.so
LoadModule authn_core_module ${modules}/mod_authn_core.so
LoadModule authn_file_module ${modules}/mod_authn_file.so
LoadModule authz_core_module ${modules}/mod_authz_core.so
LoadModule authz_user_module ${modules}/mod_authz_user.so
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
</Directory>
<VirtualHost 127.0.0.1:${ports.dav}>
  <Directory ${files}>
    Dav On
    DavMinTimeout 600
    AuthType Basic
    AuthName bench
    AuthBasicProvider file
    AuthUserFile ${folder}/passwords
    Require valid-user
  </Directory>
</VirtualHost>
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
    const ports = { http: await freePort(), dav: await freePort() }
    const file = join(folder, 'apache.conf')
    await writeFile(file, config(folder, ground.files, ports, process.getuid?.() === 0))
    await writeFile(join(folder, 'passwords'), passwordLine)
    const running = await startProcess('apache2', ['-f', file, '-DFOREGROUND'], {
      isReady: async () => (await accepts(ports.http)) && accepts(ports.dav),
    })
    const url = `http://127.0.0.1:${ports.http}/`
    return {
      name: 'apache',
      download: async (path) => url + encodedPath(path),
      dav: { url: `http://127.0.0.1:${ports.dav}/`, headers: basicHeaders },
      processes: [running],
    }
  },
}
