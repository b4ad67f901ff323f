/** Two storages between which copies take as long as a test needs. */
import type { Daemon } from '../gateway.js'
import type { Client } from '../stories/task-client.js'

/**
 * Mounts the local folder at `/left` and, at `/far`, a network storage: the tree of `remote`, whose speed can be
 * limited.
 */
export async function mountSlow(client: Client, folder: string, remote: Daemon): Promise<void> {
  const storages = [
    ['/left', 'Local', { root_folder_path: folder }],
    ['/far', 'WebDav', { address: remote.davUrl, username: 'admin', password: remote.adminPassword }],
  ] as const
  for (const [mount, driver, addition] of storages) {
    await client.post('/api/admin/storage/create', { mount_path: mount, driver, addition: JSON.stringify(addition) })
  }
}

/** Limits the speed of uploads to `/far`, in KiB per second for all nodes together; -1: not. */
export async function setSpeed(client: Client, value: string): Promise<void> {
  await client.post('/api/admin/setting/save', [
    { key: 'egress_networks', value: '127.0.0.1/32' },
    { key: 'max_server_upload_speed', value },
  ])
}
