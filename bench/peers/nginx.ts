/** nginx with the WebDAV modules of Debian's nginx-extras. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../test/servers/free-port.js'
import { encodedPath, versionLine, type PeerType } from './peer.js'
import { accepts, startProcess } from './process.js'

const modules = '/usr/lib/nginx/modules'

const config = (folder: string, files: string, port: number, isRoot: boolean): string => `
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
    listen 127.0.0.1:${port};
    root ${files};
    location / {
      autoindex on;
      autoindex_format json;
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
    const port = await freePort()
    const file = join(folder, 'nginx.conf')
    await writeFile(file, config(folder, ground.files, port, process.getuid?.() === 0))
    const running = await startProcess('nginx', ['-c', file, '-p', folder, '-e', join(folder, 'error.log')], {
      isReady: () => accepts(port),
    })
    const url = `http://127.0.0.1:${port}/`
    return {
      name: 'nginx',
      download: async (path) => url + encodedPath(path),
      dav: { url, headers: {} },
      listing: (folder) => ({ url: `${url}${encodedPath(folder)}/`, headers: {} }),
      processes: [running],
    }
  },
}
