/** nginx with the WebDAV modules of Debian's nginx-extras. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../test/servers/free-port.js'
import { basicHeaders, passwordLine } from './basic-credentials.js'
import { encodedPath, versionLine, type HttpPorts, type PeerType } from './peer.js'
import { accepts, startProcess } from './process.js'

const modules = '/usr/lib/nginx/modules'

const config = (folder: string, files: string, ports: HttpPorts, isRoot: boolean): string => `
daemon off;
${isRoot ? 'user root;' : ''}
worker_processes 2;
pid ${folder}/pid;
error_log ${folder}/error.log;
load_module ${modules}/ngx_http_dav_ext_module.so;
events { worker_connections 1024; }
http {
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000;
  client_max_body_size 0;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  server {
    listen 127.0.0.1:${ports.http};
    root ${files};
    location / {
      autoindex on;
      autoindex_format json;
    }
  }
  server {
    listen 127.0.0.1:${ports.dav};
    root ${files};
    auth_basic bench;
    auth_basic_user_file ${folder}/passwords;
    location / {
      dav_methods PUT DELETE MKCOL COPY MOVE;
      dav_ext_methods PROPFIND OPTIONS;
    }
  }
}
`

export const nginx: PeerType = {
  name: 'nginx',
  version: () => versionLine('nginx', ['-v']),
  async start(ground) {
    const folder = join(ground.folder, 'nginx')
    await mkdir(folder)
    const ports = { http: await freePort(), dav: await freePort() }
    const file = join(folder, 'nginx.conf')
    await writeFile(file, config(folder, ground.files, ports, process.getuid?.() === 0))
    await writeFile(join(folder, 'passwords'), passwordLine)
    const running = await startProcess('nginx', ['-c', file, '-p', folder, '-e', join(folder, 'error.log')], {
      isReady: async () => (await accepts(ports.http)) && accepts(ports.dav),
    })
    const url = `http://127.0.0.1:${ports.http}/`
    return {
      name: 'nginx',
      download: async (path) => url + encodedPath(path),
      dav: { url: `http://127.0.0.1:${ports.dav}/`, headers: basicHeaders },
      listing: (folder) => ({ url: `${url}${encodedPath(folder)}/`, headers: {} }),
      processes: [running],
    }
  },
}
