import type { Data } from '../api/client.ts'
import type { Me } from '../session/me.ts'
interface FilePageProps {
  readonly path: string
  readonly file: Data<'/api/fs/get'>
  readonly me: Me
}
export function FilePage({ file }: FilePageProps) {
  return <p>{file.name}</p>
}
