/** The entry of the console. */
import { render } from 'preact'
import { App } from './app.tsx'
import './styles/base.css'

const root = document.getElementById('console')
if (root) render(<App />, root)
import './styles/files.css'
