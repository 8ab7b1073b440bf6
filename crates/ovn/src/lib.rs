//! OVSDB client and the northbound and southbound rows that causeway touches
