"""Bytes of files as text, XML trees and archives, with limits on the time and memory that untrusted files may take."""
