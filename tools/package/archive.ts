/** Archives that have the same bytes whenever they are made from the same files. */
import { basename, dirname } from 'node:path'
import { run } from './run.js'

/**
 * Gives every file below the folder the time, in seconds since 1970, and the permissions that all may read it: 0755 for
 * folders and programs, else 0644.
 */
export async function normalize(folder: string, time: number): Promise<void> {
  await run('chmod', ['-R', 'u=rwX,go=rX', folder])
  await run('find', [folder, '-exec', 'touch', '--no-dereference', `--date=@${time}`, '{}', '+'])
}

/** Writes a gzipped tar archive whose only top folder is `folder`, which is normalized. */
export async function writeArchive(file: string, folder: string): Promise<void> {
  const order = ['--sort=name', '--owner=0', '--group=0', '--numeric-owner', '--format=gnu']
  // gzip writes neither a name nor a time with -n.
  const compress = '--use-compress-program=gzip -n -9'
  await run('tar', [...order, compress, '-C', dirname(folder), '-cf', file, basename(folder)])
}
