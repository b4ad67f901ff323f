/** The way from the root to the shown folder, as links. */
import { Link } from 'wouter-preact'
import { addressOf } from '../components/places.ts'
import { texts } from '../texts.ts'

export function Breadcrumb({ path }: { readonly path: string }) {
  const names = path.split('/').filter((name) => name !== '')
  return (
    <nav aria-label={texts.files.path} class="breadcrumb">
      <ol>
        <li>
          <Link href="/" aria-current={names.length === 0 ? 'page' : undefined}>
            {texts.files.home}
          </Link>
        </li>
        {names.map((name, index) => (
          <li key={index}>
            <Link
              href={addressOf(`/${names.slice(0, index + 1).join('/')}`)}
              aria-current={index === names.length - 1 ? 'page' : undefined}
            >
              {name}
            </Link>
          </li>
        ))}
      </ol>
    </nav>
  )
}
